#include "rota/object_storage.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/text.hpp"
#include "remote/http.hpp"

namespace rota::internal {

std::vector<std::string>& known_ca_files() {
  static std::vector<std::string> all{
      "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Arch, Gentoo
      "/etc/pki/tls/certs/ca-bundle.crt",                   // Red Hat
      "/etc/ssl/ca-bundle.pem",                             // SUSE
      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Red Hat, from 7 on
      "/etc/ssl/cert.pem",                                  // Alpine
  };
  return all;
}

std::string find_ca_file(const char* own, const std::vector<std::string>& known) {
  const auto is_there = [](const std::string& file) { return ::access(file.c_str(), R_OK) == 0; };
  if (own == nullptr || is_there(own)) return {};
  const auto found = std::ranges::find_if(known, is_there);
  return found == known.end() ? std::string() : *found;
}

}  // namespace rota::internal

namespace rota {
namespace {

using internal::OptionCheck;

void check_secrets(const S3Options& options) {
  const bool has_key = !options.access_key.empty();
  if (has_key != options.secret_key.empty() && (options.session_token.empty() || has_key)) return;
  throw Error(ErrorCode::invalid_argument,
              "make a storage: credentials must have both an access key and a secret key, or neither");
}

// Whether something, perhaps a password, stands before the server's name.
bool has_user(std::string_view url) { return internal::without_users(url) != url; }

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
  if (!addressing.empty() && addressing != "virtual" && addressing != "path")
    OptionCheck("make a storage").refuse("addressing", addressing, "\"virtual\" or \"path\"");
  const bool is_url = endpoint.starts_with("http://") || endpoint.starts_with("https://");
  if (endpoint.empty() || (is_url && !has_user(endpoint))) return;
  const std::size_t user = endpoint.rfind('@');
  OptionCheck("make a storage")
      .refuse("endpoint", user == std::string::npos ? endpoint : "***" + endpoint.substr(user),
              "a URL without a password: https://host:port");
}

const Storages& storages_from_environment() {
  static const Storages all{
      {"s3", s3_storage()}, {"https", http_storage("https")}, {"http", http_storage("http")}};
  return all;
}

StoredPath stored_path(const std::string& path, const Storages& storages) {
  constexpr std::string_view kBehindScheme = "://";
  const std::size_t end = path.find(kBehindScheme);
  if (end == std::string::npos) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "find a storage for \"{}\": name a scheme, as in s3://bucket/run", path);
  }
  if (has_user(path)) {
    throw Error(ErrorCode::invalid_argument,
                "open a URL with a password in it: paths are shown in messages, and saved; have the server "
                "ask for none, or read by a Storage of your own");
  }
  const std::string scheme = path.substr(0, end);
  const Storages& known = storages.contains(scheme) ? storages : storages_from_environment();
  const auto found = known.find(scheme);
  if (found != known.end()) return {found->second, path.substr(end + kBehindScheme.size()), path};
  if (const auto other = storages.find(""); other != storages.end()) return {other->second, path, path};
  throw internal::failure(ErrorCode::not_found,
                          "open {}: there is no storage for {}://; in C++, give one in the option storages",
                          path, scheme);
}

}  // namespace rota
