#include "rota/object_storage.hpp"

#include "rota/error.hpp"
#include "values/option.hpp"

namespace rota {
namespace {

using internal::OptionCheck;

void check_secrets(const S3Options& options) {
  const auto& [access_key, secret_key, session_token] = options.credentials;
  if (access_key.empty() == secret_key.empty() && (session_token.empty() || !access_key.empty())) return;
  throw Error(ErrorCode::invalid_argument,
              "make a storage: credentials must have both an access key and a secret key, or neither");
}

}  // namespace

void HttpOptions::validate() const {
  constexpr OptionCheck kCheck("make a storage");
  kCheck.in_range("connections", connections, 1, 1024);
  kCheck.in_range("deadline", deadline.count(), 1, 86'400'000, "milliseconds");
  kCheck.in_range("stall", stall.count(), 1, 3600, "seconds");
  kCheck.in_range("retry_wait", retry_wait.count(), 0, 15'000, "milliseconds");
}

void S3Options::validate() const {
  http.validate();
  check_secrets(*this);
  const bool is_url = endpoint.starts_with("http://") || endpoint.starts_with("https://");
  if (endpoint.empty() || is_url) return;
  OptionCheck("make a storage").refuse("endpoint", endpoint, "a URL: https://host:port");
}

const Storages& storages_from_environment() {
  static const Storages all{
      {"s3", s3_storage()}, {"https", http_storage("https")}, {"http", http_storage("http")}};
  return all;
}

}  // namespace rota
