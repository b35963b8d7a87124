#pragma once

// Signatures of requests to S3.

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace rota::internal
