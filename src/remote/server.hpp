#pragma once

// Files over HTTP, of any server.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "remote/http.hpp"
#include "rota/storage.hpp"

namespace rota::internal {

/// A storage behind HTTP; what differs between servers is virtual. Any thread.
class Server : public Storage {
 public:
  explicit Server(HttpOptions options) : client_(std::move(options)) {}

  [[nodiscard]] std::optional<StoredFile> find(std::string_view name) const override;
  void read(std::span<StoredBytes> wanted) const override;

  /// For messages: "s3://bucket/key".
  [[nodiscard]] virtual std::string path(std::string_view name) const = 0;
  /// A request for a file, with a header "Range", if any.
  [[nodiscard]] virtual HttpRequest request(std::string_view method, std::string_view name,
                                            std::string_view range) const = 0;
  /// Judges an answer that is no success, and not that nothing has this name: whether trying again may help.
  /// Throws what it says, after `what`.
  [[nodiscard]] virtual bool judge(const HttpAnswer& answer, std::string_view name,
                                   const std::string& what) const = 0;
  /// Throws, after `what`, where a success is of another server than is meant.
  virtual void require_own(const HttpAnswer& /*answer*/, const std::string& /*what*/) const {}

 protected:
  [[nodiscard]] const HttpClient& client() const noexcept { return client_; }

 private:
  HttpClient client_;
};

/// The version of what has this ETag; 0 without one. Quotes do not count.
std::uint64_t version_of(std::string_view etag);
/// The same of an answer: by its ETag, or by when it was last modified.
std::uint64_t version_of(const HttpAnswer& answer);

/// What a header "Content-Range" says: "bytes 0-9/100".
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::optional<std::uint64_t> bytes = {};  ///< of the whole file, where it is said
};
std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace rota::internal
