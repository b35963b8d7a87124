// Objects of S3 as files.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <pugixml.hpp>
#include <utility>

#include "remote/credentials.hpp"
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
  HttpRequest request() override { return server_.list(prefix_, token_); }

  bool finish(const HttpAnswer& answer) override {
    if (!answer.is_success()) return !server_.judge(answer, prefix_, what());
    pugi::xml_document document;
    const bool is_whole =
        document.load_buffer(answer.body.data(), answer.body.size()).status == pugi::status_ok;
    const pugi::xml_node list = document.child("ListBucketResult");
    if (!is_whole || !list) {
      trouble = fmt::format("the answer is no list{}{}", document.child("Error") ? ": " : "",
                            document.child("Error").child_value("Code"));
      return false;
    }
    std::vector<StoredFile> files;
    const bool is_encoded = std::string_view(list.child_value("EncodingType")) == "url";
    const std::string bucket(ObjectName(prefix_).bucket);
    for (const pugi::xml_node item : list.children("Contents")) {
      const std::string_view key = item.child_value("Key");
      const auto bytes = number_in(item.child_value("Size"));
      if (!bytes) return trouble = "the list has an object without a size", false;
      files.push_back(
          {.name = fmt::format("{}/{}", bucket, is_encoded ? percent_decoded(key) : std::string(key)),
           .bytes = *bytes,
           .version = version_of(item.child_value("ETag"))});
    }
    std::string next;
    if (std::string_view(list.child_value("IsTruncated")) == "true") {
      next = list.child_value("NextContinuationToken");
      if (next.empty() || next == token_)
        return trouble = "the list says that it goes on, and not where", false;
    }
    page_ = std::move(files);
    token_ = std::move(next);
    return true;
  }

  [[nodiscard]] bool is_last() const noexcept { return token_.empty(); }
  [[nodiscard]] const std::vector<StoredFile>& page() const noexcept { return page_; }

 private:
  const S3Server& server_;
  std::string prefix_;
  std::string token_ = {};
  std::vector<StoredFile> page_ = {};
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
    if (!ObjectName(name).bucket.empty()) return;
    throw Error(ErrorCode::invalid_argument, "read s3://: name a bucket: s3://bucket/prefix");
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
