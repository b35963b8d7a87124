#pragma once

// Requests to S3, what its refusals mean, and what takes several requests: lists and uploads.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.hpp"
#include "remote/credentials.hpp"
#include "remote/http.hpp"
#include "remote/server.hpp"
#include "rota/object_storage.hpp"
#include "rota/storage.hpp"

namespace rota::internal {

/// "bucket/key" in two. An empty key: the bucket itself.
struct ObjectName {
  explicit ObjectName(std::string_view name)
      : bucket(name.substr(0, name.find('/'))),
        key(bucket.size() < name.size() ? name.substr(bucket.size() + 1) : std::string_view()) {}
  std::string_view bucket;
  std::string_view key;
};

/// Puts the bytes from `offset` on.
using Fill = std::function<void(std::uint64_t offset, std::span<std::byte> to)>;

/// "s3", "s3-fips.dualstack": as the environment or the profile wants Amazon's.
std::string service_name();

/// S3, or a store that is compatible. Any thread.
class S3Server final : public Server {
 public:
  explicit S3Server(S3Options options)
      : Server(options.http), options_(std::move(options)), credentials_(options_) {}

  /// Where the first page is full, and lies in few directories, these are listed beside each other.
  void list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const override;
  [[nodiscard]] std::optional<StoredFile> find(std::string_view name) const override;
  /// Every request is signed with the SHA-256 of its body, which the store checks.
  void write(std::string_view name, std::uint64_t bytes, const Fill& fill) const override;
  void remove(std::string_view name) const override;

  [[nodiscard]] std::string path(std::string_view name) const override;
  [[nodiscard]] HttpRequest request(std::string_view method, std::string_view name,
                                    std::string_view range) const override;
  [[nodiscard]] bool judge(const HttpAnswer& answer, std::string_view name,
                           const std::string& what) const override;
  void require_own(const HttpAnswer& answer, const std::string& what) const override;
  /// `made`, signed, for an object or a bucket. Its path and its hash are set here.
  [[nodiscard]] HttpRequest sign(std::string_view name, SignedRequest made, std::string body = {}) const;
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return options_.http.deadline; }

 private:
  [[nodiscard]] std::string region_of(const std::string& bucket) const;
  [[nodiscard]] std::uint64_t version_now(std::string_view name) const;
  [[nodiscard]] std::string put_parts(std::string_view name, const std::string& id, std::uint64_t bytes,
                                      const Fill& fill) const;
  void complete(std::string_view name, const std::string& id, const std::string& parts, std::uint64_t before,
                std::uint64_t bytes) const;

  S3Options options_;
  std::string service_ = service_name();
  Credentials credentials_;
  mutable Mutex mutex_;
  mutable std::map<std::string, std::string> regions_
      ROTA_GUARDED_BY(mutex_);  // of buckets that are elsewhere
};

/// A page of a list of objects.
struct S3Page {
  std::vector<StoredFile> files = {};
  std::vector<std::string> directories = {};  ///< "bucket/a/", where files in them are left out
  std::string next = {};                      ///< token of the next page; empty: there is none
};

/// The page in an answer to ListObjectsV2 for `bucket` with `token`. What is wrong with it is put into
/// `trouble`, and the page is then empty.
S3Page parse_page(std::string_view xml, std::string_view bucket, std::string_view token,
                  std::string& trouble);

}  // namespace rota::internal
