#include "catalog/file_names.hpp"

#include <strings.h>

#include <algorithm>
#include <array>

namespace rota::internal {

namespace {

// Of Windows, macOS, file systems, Synology, and of those that write with Hadoop or Spark.
constexpr std::array<std::string_view, 8> kNames{"thumbs.db", "desktop.ini", "__macosx",  "lost+found",
                                                 "@eadir",    "_success",    "_metadata", "_common_metadata"};
// Of checksums, and of downloads that are under way.
constexpr std::array<std::string_view, 3> kEndings{".crc", ".part", ".crdownload"};

bool is_same(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && (a.empty() || ::strncasecmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

bool is_leftover(std::string_view name) noexcept {
  return name.starts_with('.') || name.ends_with('~') || (name.starts_with('#') && name.ends_with('#')) ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); }) ||
         std::ranges::any_of(kNames, [&](std::string_view other) { return is_same(name, other); });
}

bool ends_as(std::string_view name, std::string_view ending) noexcept {
  return name.size() >= ending.size() && is_same(name.substr(name.size() - ending.size()), ending);
}

std::string_view without_query(std::string_view path) noexcept {
  const bool is_url = path.starts_with("http://") || path.starts_with("https://");
  return is_url ? path.substr(0, path.find('?')) : path;
}

bool has_leftover(std::string_view path) noexcept {
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    if (is_leftover(name)) return true;
    path.remove_prefix(std::min(name.size() + 1, path.size()));
  }
  return false;
}

}  // namespace rota::internal
