// Objects of S3 as files.

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <map>
#include <mutex>
#include <pugixml.hpp>
#include <utility>

#include "remote/credentials.hpp"
#include "remote/server.hpp"
#include "remote/signature.hpp"
#include "rota/error.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {
namespace {

/// "bucket/key" in two. An empty key: the bucket itself.
struct ObjectName {
  explicit ObjectName(std::string_view name)
      : bucket(name.substr(0, name.find('/'))),
        key(bucket.size() < name.size() ? name.substr(bucket.size() + 1) : std::string_view()) {}
  std::string_view bucket;
  std::string_view key;
};

bool is_yes(const std::string& text) { return text == "yes" || text == "true" || text == "1"; }

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

class S3Server final : public Server {
 public:
  S3Server(const S3Options& options, const HttpClient& client)
      : options_(options), credentials_(options, client) {}

  [[nodiscard]] std::string path(std::string_view name) const override {
    return fmt::format("s3://{}", name);
  }

  [[nodiscard]] HttpRequest request(std::string_view method, std::string_view name,
                                    std::string_view range) const override {
    SignedRequest made{.method = std::string(method)};
    if (!range.empty()) made.headers.emplace_back("range", range);
    return sign(ObjectName(name), std::move(made));
  }

  /// A page of the list of keys that begin with the name's key.
  [[nodiscard]] HttpRequest list(std::string_view name, const std::string& token) const {
    const ObjectName at(name);
    SignedRequest made{
        .query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", std::string(at.key)}}};
    if (!token.empty()) made.query.emplace_back("continuation-token", token);
    return sign(ObjectName(at.bucket), std::move(made));
  }

  [[nodiscard]] bool judge(const HttpAnswer& answer, std::string_view name,
                           const std::string& what) const override {
    const std::string bucket(ObjectName(name).bucket);
    const std::string_view region = answer.header("x-amz-bucket-region");
    if (!region.empty() && answer.status != 403 && region != region_of(bucket)) {
      const MutexLock lock(mutex_);
      regions_[bucket] = region;
      return true;
    }
    pugi::xml_document document;
    document.load_buffer(answer.body.data(), answer.body.size());
    const pugi::xml_node error = document.child("Error");
    const std::string_view code = error.child_value("Code");
    const bool may_be_over = (answer.status == 400 && code.empty()) || code == "ExpiredToken" ||
                             code == "TokenRefreshRequired" || code == "InvalidToken";
    if (may_be_over && credentials_.renew(credentials_.now())) return true;
    const std::string said =
        code.empty() ? fmt::format("status {}", answer.status)
                     : fmt::format("status {}, {}: {}", answer.status, code, error.child_value("Message"));
    if (answer.status == 404) throw Error(ErrorCode::not_found, fmt::format("{}: {}", what, said));
    std::string_view advice;
    if (answer.status == 401 || answer.status == 403) {
      advice = code == "RequestTimeTooSkewed" ? "; set this machine's clock"
                                              : "; check the credentials, and that they may read this bucket";
    }
    throw Error(ErrorCode::io, fmt::format("{}: {}{}", what, said, advice));
  }

 private:
  [[nodiscard]] std::string region_of(const std::string& bucket) const {
    const MutexLock lock(mutex_);
    const auto found = regions_.find(bucket);
    return found == regions_.end() ? options_.region : found->second;
  }

  [[nodiscard]] HttpRequest sign(const ObjectName& at, SignedRequest made) const {
    const std::string bucket(at.bucket);
    const std::string region = region_of(bucket);
    std::string server = options_.endpoint;
    made.path = "/" + percent_encoded(at.key, true);
    const bool is_host = server.empty() && bucket.find('.') == std::string::npos;
    if (server.empty()) {
      server =
          fmt::format("https://{}{}s3.{}.amazonaws.com", is_host ? bucket : "", is_host ? "." : "", region);
    }
    if (!is_host) made.path = "/" + percent_encoded(bucket, false) + made.path;
    const std::string query = query_text(made.query);
    HttpRequest request{.method = made.method,
                        .url = fmt::format("{}{}{}{}", server, made.path, query.empty() ? "" : "?", query)};
    const S3Credentials keys = credentials_.now();
    made.body_hash = sha256_text({});
    made.headers.emplace_back("x-amz-content-sha256", made.body_hash);
    made.headers.emplace_back("x-amz-date", amazon_time(std::time(nullptr)));
    if (!keys.session_token.empty()) made.headers.emplace_back("x-amz-security-token", keys.session_token);
    for (const auto& [header, value] : made.headers)
      request.headers.push_back(fmt::format("{}: {}", header, value));
    if (keys.access_key.empty()) return request;
    made.headers.emplace_back("host", server.substr(server.find("://") + 3));
    request.headers.push_back("Authorization: " + authorization(made, keys, region, "s3"));
    return request;
  }

  const S3Options& options_;
  Credentials credentials_;
  mutable Mutex mutex_;
  mutable std::map<std::string, std::string> regions_
      ROTA_GUARDED_BY(mutex_);  // of buckets that are elsewhere
};

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
