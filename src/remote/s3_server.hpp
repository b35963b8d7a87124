#pragma once

// Requests to S3, what its refusals mean, and what is made of several requests: lists and uploads.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.hpp"
#include "remote/credentials.hpp"
#include "remote/http.hpp"
#include "remote/server.hpp"
#include "remote/signature.hpp"
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

/// Any thread.
class S3Server final : public Server {
 public:
  /// `options` must outlive it.
  explicit S3Server(const S3Options& options) : options_(options), credentials_(options) {}

  [[nodiscard]] std::string path(std::string_view name) const override;
  [[nodiscard]] HttpRequest request(std::string_view method, std::string_view name,
                                    std::string_view range) const override;
  /// A page of the list of keys that begin with the name's key; what lies in directories below it is left out
  /// where they are to be told in its place.
  [[nodiscard]] HttpRequest list(std::string_view name, bool by_directory, const std::string& token) const;
  /// One that sends something. `query` is plain names and values.
  [[nodiscard]] HttpRequest send(std::string_view method, std::string_view name,
                                 std::vector<std::pair<std::string, std::string>> query,
                                 std::string body) const;
  [[nodiscard]] bool judge(const HttpAnswer& answer, std::string_view name,
                           const std::string& what) const override;

  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return options_.http.deadline; }

 private:
  [[nodiscard]] std::string region_of(const std::string& bucket) const;
  [[nodiscard]] HttpRequest sign(const ObjectName& at, SignedRequest made, std::string body = {}) const;

  const S3Options& options_;
  Credentials credentials_;
  mutable Mutex mutex_;
  mutable std::map<std::string, std::string> regions_
      ROTA_GUARDED_BY(mutex_);  // of buckets that are elsewhere
};

/// A page of a list of objects.
struct S3Page {
  std::vector<StoredFile> files = {};
  std::vector<std::string> directories = {};  ///< "bucket/a/", where files in them are left out
  std::string next = {};                      ///< what asks for the next page; empty: there is none
};

/// The page in an answer to ListObjectsV2 for `bucket`. What is wrong with it is put into `trouble`, and
/// nothing else is then of use. `token` has asked for it.
S3Page parse_page(std::string_view xml, std::string_view bucket, std::string_view token,
                  std::string& trouble);

/// As Storage::list. Where the first page is full, and lies in few directories, these are listed beside each
/// other, with up to `at_once` requests under way.
void list_objects(const HttpClient& client, const S3Server& server, std::string_view prefix,
                  std::size_t at_once, const std::function<void(const StoredFile&)>& visit);

/// Puts the bytes from `offset` on.
using Fill = std::function<void(std::uint64_t offset, std::span<std::byte> to)>;

/// As Storage::write. Every request is signed with the SHA-256 of what it brings, which the store checks.
void upload(const HttpClient& client, const S3Server& server, std::string_view name, std::uint64_t bytes,
            const Fill& fill);

/// As Storage::remove.
void remove_object(const HttpClient& client, const S3Server& server, std::string_view name);

}  // namespace rota::internal
