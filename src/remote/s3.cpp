// Objects of S3 as files.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "remote/credentials.hpp"
#include "remote/s3_page.hpp"
#include "remote/s3_server.hpp"
#include "remote/s3_upload.hpp"
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
  complete(options.http.ca_file, {"AWS_CA_BUNDLE"});
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (options.credentials.access_key.empty() && is_yes(environment("AWS_NO_SIGN_REQUEST"))) {
    options.is_anonymous = true;
  }
  return options;
}

/// Pages of a list, one after the other.
class ListPage final : public Transfer {
 public:
  ListPage(const S3Server& server, std::string_view prefix) : server_(server), prefix_(prefix) {}

  [[nodiscard]] std::string what() const override { return "list " + server_.path(prefix_); }
  HttpRequest request() override { return server_.list(prefix_, page_.next); }

  bool finish(const HttpAnswer& answer) override {
    if (!answer.is_success()) return !server_.judge(answer, prefix_, what());
    S3Page page = parse_page(answer.body, ObjectName(prefix_).bucket, page_.next, trouble);
    if (!trouble.empty()) return false;
    page_ = std::move(page);
    return true;
  }

  [[nodiscard]] bool is_last() const noexcept { return page_.next.empty(); }
  [[nodiscard]] const std::vector<StoredFile>& page() const noexcept { return page_.files; }

 private:
  const S3Server& server_;
  std::string prefix_;
  S3Page page_ = {};
};

class S3Storage final : public Storage {
 public:
  explicit S3Storage(S3Options options)
      : options_(std::move(options)), client_(options_.http), server_(options_, client_) {}

  void list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const override {
    require_bucket(prefix);
    ListPage list(server_, prefix);
    do {
      client_.run(list);
      for (const StoredFile& file : list.page()) visit(file);
    } while (!list.is_last());
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
