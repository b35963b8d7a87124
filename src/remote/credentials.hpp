#pragma once

// The keys of S3: where they come from, and the signatures of requests that are made with them.

#include <ctime>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {

/// What signs requests; without an access key they are not signed.
struct S3Keys {
  std::string access_key = {};
  std::string secret_key = {};
  std::string session_token = {};       ///< of temporary keys
  std::optional<std::time_t> end = {};  ///< when they expire

  /// What distinguishes keys from others; a secret.
  [[nodiscard]] std::string signer() const { return access_key + '\n' + session_token; }
};

/// What of a request is signed.
struct SignedRequest {
  std::string method = "GET";
  std::string path = "/";  ///< percent-encoded
  /// Plain names and values.
  std::vector<std::pair<std::string, std::string>> query = {};
  /// Names in lower case; "host" among them.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body_hash = {};  ///< SHA-256, in hexadecimal digits
};

/// "a=b&c=d", percent-encoded, in order of names.
std::string query_text(std::vector<std::pair<std::string, std::string>> query);

/// SHA-256 of `bytes` in hexadecimal digits.
std::string sha256_text(std::string_view bytes);

/// Of a moment, as "20130524T000000Z".
std::string amazon_time(std::time_t time);

/// The value of the header "Authorization" by AWS Signature Version 4, for headers that have "x-amz-date":
/// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
std::string authorization(const SignedRequest& request, const S3Keys& keys, std::string_view region,
                          std::string_view service);

/// A variable of the environment; empty without.
std::string environment(const char* name);

/// The values of the sections of a file as ~/.aws/credentials is, as botocore reads it: [section], then `name
/// = value` or `name: value`, or `name =` and lines that are indented more, which are called "name.indented".
/// The section "" says by "trouble" which line is neither.
using ProfileFile = std::map<std::string, std::map<std::string, std::string>, std::less<>>;
ProfileFile parse_profiles(std::string_view text);

/// A value of the profile that the environment names, of either file; empty without.
std::string profile_value(const std::string& name);

/// Of Amazon's servers in a region.
std::string_view domain_of(std::string_view region);

/// The keys in a JSON answer. Throws Error{io} for one without keys.
S3Keys parse_credentials(std::string_view json, const std::string& what);
/// The keys in an XML answer of STS.
S3Keys parse_identity(std::string_view xml, const std::string& what);

/// Where keys come from: the options, or the environment. Any thread.
class Credentials {
 public:
  /// `options` must outlive it.
  explicit Credentials(const S3Options& options) : options_(options) {}

  /// The keys to use now. They are renewed where they end in less than 5 minutes, and kept to their end where
  /// that fails. Blocks, for 10 seconds at most for each server. Throws Error{io} or Error{timeout}
  /// naming a source that fails, and Error{invalid_argument} where there are none; the same at once, where it
  /// has just failed.
  [[nodiscard]] S3Keys now() const;
  /// The store refused the keys of this S3Keys::signer as expired. Whether there may be others now.
  [[nodiscard]] bool renew(std::string_view signer) const;

 private:
  S3Keys fetch() const;

  const S3Options& options_;
  mutable Mutex mutex_;
  mutable std::optional<S3Keys> kept_ ROTA_GUARDED_BY(mutex_);
  mutable std::time_t fetched_ ROTA_GUARDED_BY(mutex_) = 0;  // when they were last fetched
  mutable std::exception_ptr failure_ ROTA_GUARDED_BY(mutex_) = {};
  mutable std::time_t failed_ ROTA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rota::internal
