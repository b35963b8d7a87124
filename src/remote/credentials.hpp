#pragma once

// Who asks S3.

#include <ctime>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/mutex.hpp"
#include "remote/http.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {

/// A variable of the environment; empty without.
std::string environment(const char* name);

/// The values of the sections of a file as ~/.aws/credentials is: [section], then `name = value`, or `name =`
/// and indented ones, which are called "name.indented". What is neither is passed over.
using ProfileFile = std::map<std::string, std::map<std::string, std::string>, std::less<>>;
ProfileFile parse_profiles(std::string_view text);

/// A value of the profile that the environment names, of either file; empty without.
std::string profile_value(const std::string& name);

/// Of Amazon's servers in a region.
std::string_view domain_of(std::string_view region);

/// Credentials that may end.
struct EndingCredentials {
  S3Credentials keys = {};
  std::optional<std::time_t> end = {};
};

/// What tells keys from others; a secret.
std::string signer_of(const S3Credentials& keys);

/// Those that a server told as JSON. Throws Error{io} for an answer that is none.
EndingCredentials parse_credentials(std::string_view json, const std::string& what);
/// Those of an answer of STS, which is XML.
EndingCredentials parse_identity(std::string_view xml, const std::string& what);

/// Where credentials come from: the options, or the environment. Any thread.
class Credentials {
 public:
  /// `options` must outlive it.
  explicit Credentials(const S3Options& options) : options_(options) {}

  /// The ones to use now; renewed where they end in less than 5 minutes, and kept to their end where that
  /// fails. Empty access key: requests are not signed. Blocks, for 10 seconds at most for each server asked.
  /// Throws Error{io} or Error{timeout} naming a source that fails, and Error{invalid_argument} where there
  /// are none; the same at once, where it has just failed.
  [[nodiscard]] S3Credentials now() const;
  /// Those of `used`, as signer_of tells them, were refused as over. Whether there may be others now.
  [[nodiscard]] bool renew(std::string_view used) const;

 private:
  S3Credentials ask() const;
  [[nodiscard]] EndingCredentials find() const;
  [[nodiscard]] std::optional<EndingCredentials> from_process() const;
  [[nodiscard]] std::optional<EndingCredentials> from_web_identity() const;
  [[nodiscard]] std::optional<EndingCredentials> from_container() const;
  [[nodiscard]] std::optional<EndingCredentials> from_machine() const;

  const S3Options& options_;
  mutable Mutex mutex_;
  mutable std::optional<EndingCredentials> kept_ ROTA_GUARDED_BY(mutex_);
  mutable std::time_t asked_ ROTA_GUARDED_BY(mutex_) = 0;  // when they were last asked for
  mutable std::exception_ptr failure_ ROTA_GUARDED_BY(mutex_) = {};
  mutable std::time_t failed_ ROTA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rota::internal
