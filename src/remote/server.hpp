#pragma once

// Files over HTTP, whoever has them.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "remote/http.hpp"
#include "rota/storage.hpp"

namespace rota::internal {

/// How files are asked for. Any thread.
class Server {
 public:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  virtual ~Server() = default;

  /// For messages: "s3://bucket/key".
  [[nodiscard]] virtual std::string path(std::string_view name) const = 0;
  /// A request for a file, with a header "Range", if any.
  [[nodiscard]] virtual HttpRequest request(std::string_view method, std::string_view name,
                                            std::string_view range) const = 0;
  /// Of an answer that is no success, and is not that nothing has this name: whether trying again may help.
  /// Throws what it says, after `what`.
  [[nodiscard]] virtual bool judge(const HttpAnswer& answer, std::string_view name,
                                   const std::string& what) const = 0;
};

/// The version of what has this ETag; 0 without one. Quotes do not count.
std::uint64_t version_of(std::string_view etag);
/// The same of an answer: by its ETag, or by when it was last modified.
std::uint64_t version_of(const HttpAnswer& answer);

/// The number of bytes that a header says; nothing where it says none.
std::optional<std::uint64_t> number_in(std::string_view text);

/// What a header "Content-Range" says: "bytes 0-9/100".
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::optional<std::uint64_t> bytes = {};  ///< of the whole file, where it is said
};
std::optional<ContentRange> parse_content_range(std::string_view text);

/// As Storage::find.
std::optional<StoredFile> find_file(const HttpClient& client, const Server& server, std::string_view name);

/// As Storage::read.
void read_ranges(const HttpClient& client, const Server& server, std::span<StoredBytes> wanted);

}  // namespace rota::internal
