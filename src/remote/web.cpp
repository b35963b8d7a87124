// Files behind a web server.

#include <fmt/format.h>

#include <utility>

#include "core/option.hpp"
#include "remote/credentials.hpp"
#include "remote/server.hpp"
#include "rota/error.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {
namespace {

/// A file's name is its URL without the scheme.
class WebServer final : public Server {
 public:
  WebServer(std::string scheme, HttpOptions options)
      : Server(std::move(options)), scheme_(std::move(scheme)) {}

  void list(std::string_view prefix, const std::function<void(const StoredFile&)>& /*visit*/) const override {
    throw Error(
        ErrorCode::not_found,
        fmt::format("list {}: no file has this name, and a web server cannot list others; name each file",
                    path(prefix)));
  }
  [[nodiscard]] std::string path(std::string_view name) const override {
    return fmt::format("{}://{}", scheme_, name);
  }
  [[nodiscard]] HttpRequest request(std::string_view method, std::string_view name,
                                    std::string_view range) const override {
    if (name.find('#') != std::string_view::npos) {  // clients do not send what follows it
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("read {}: write %23 for the \"#\" in its name", path(name)));
    }
    HttpRequest made{.method = std::string(method), .url = path(name), .may_redirect = true};
    if (!range.empty()) made.headers.push_back(fmt::format("Range: {}", range));
    return made;
  }
  [[nodiscard]] bool judge(const HttpAnswer& answer, std::string_view /*name*/,
                           const std::string& what) const override {
    throw Error(ErrorCode::io, fmt::format("{}: status {}", what, answer.status));
  }

 private:
  std::string scheme_;
};

}  // namespace
}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Storage> http_storage(std::string scheme, HttpOptions options) {
  options.validate();
  if (options.ca_file.empty()) options.ca_file = internal::environment("SSL_CERT_FILE");
  if (scheme != "http" && scheme != "https")
    internal::OptionCheck("make a storage").refuse("scheme", scheme, "http or https");
  return std::make_shared<const internal::WebServer>(std::move(scheme), std::move(options));
}

}  // namespace rota
