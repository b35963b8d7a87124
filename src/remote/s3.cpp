// Objects of S3 as files.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "remote/credentials.hpp"
#include "remote/s3_server.hpp"
#include "rota/error.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {
namespace {

bool is_yes(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text == "yes" || text == "true" || text == "1";
}

// What the options leave open, from the environment.
S3Options completed(S3Options options) {
  const auto complete = [](std::string& option, std::initializer_list<const char*> names) {
    for (const char* const name : names) {
      if (option.empty()) option = environment(name);
    }
  };
  complete(options.region, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (options.region.empty()) options.region = profile_value("region");
  if (options.region.empty()) options.region = "us-east-1";
  complete(options.endpoint, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (options.endpoint.empty()) options.endpoint = profile_value("s3.endpoint_url");
  if (options.endpoint.empty()) options.endpoint = profile_value("endpoint_url");
  options.requester_pays = options.requester_pays || environment("AWS_REQUEST_PAYER") == "requester";
  complete(options.http.ca_file, {"AWS_CA_BUNDLE"});
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (options.credentials.access_key.empty() && is_yes(environment("AWS_NO_SIGN_REQUEST"))) {
    options.is_anonymous = true;
  }
  return options;
}

class S3Storage final : public Storage {
 public:
  explicit S3Storage(S3Options options)
      : options_(std::move(options)), client_(options_.http), server_(options_) {}

  void list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const override {
    require_bucket(prefix);
    list_objects(client_, server_, prefix, static_cast<std::size_t>(options_.http.connections), visit);
  }

  [[nodiscard]] std::optional<StoredFile> find(std::string_view name) const override {
    require_bucket(name);
    if (ObjectName(name).key.empty()) return std::nullopt;
    return find_file(client_, server_, name);
  }

  void read(std::span<StoredBytes> wanted) const override { read_ranges(client_, server_, wanted); }

  void write(std::string_view name, std::uint64_t bytes, const Fill& fill) const override {
    require_bucket(name);
    upload(client_, server_, name, bytes, fill);
  }

  void remove(std::string_view name) const override {
    require_bucket(name);
    remove_object(client_, server_, name);
  }

 private:
  static void require_bucket(std::string_view name) {
    const std::string_view bucket = ObjectName(name).bucket;
    const bool is_one = std::ranges::all_of(bucket, [](unsigned char c) {
      return (std::isalnum(c) != 0 && c < 0x80) || c == '.' || c == '-' || c == '_';
    });
    if (is_one && !bucket.empty() && bucket != "." && bucket != "..") return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("read s3://{}: name a bucket, in letters, digits, \".\", \"-\" and \"_\": "
                            "s3://bucket/prefix",
                            name));
  }

  S3Options options_;
  HttpClient client_;
  S3Server server_;
};

}  // namespace
}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Storage> s3_storage(S3Options options) {
  options = internal::completed(std::move(options));
  options.validate();
  return std::make_shared<const internal::S3Storage>(std::move(options));
}

}  // namespace rota
