#pragma once

// Requests to S3, and what its refusals mean.

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "core/mutex.hpp"
#include "remote/credentials.hpp"
#include "remote/server.hpp"
#include "remote/signature.hpp"
#include "rota/object_storage.hpp"

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

}  // namespace rota::internal
