#pragma once

// Where shards are written to.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "rota/storage.hpp"

namespace rota::internal {

/// A directory of a file system, or of a storage. Any process may have it at the same time.
class Destination {
 public:
  /// Makes the directory, if need be. Throws Error{io}, Error{not_found}.
  Destination(const std::string& path, const Storages& storages);

  /// With a slash at the end.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// What is in it, with sizes, and of directories in it the names; nothing that begins with a dot.
  [[nodiscard]] std::map<std::string, std::uint64_t> list() const;
  /// Whether it holds just these bytes.
  [[nodiscard]] bool holds(const std::string& name, std::span<const std::byte> bytes) const;
  /// Makes a file, or takes its place: whole, or not at all.
  void put(const std::string& name, std::span<const std::byte> bytes) const;
  /// It may be gone already.
  void remove(const std::string& name) const;
  /// Removes what processes that were killed have left of files that begin so.
  void sweep(std::initializer_list<std::string_view> stems) const;

 private:
  std::string path_;
  Storages storages_;
  StoredPath stored_;
};

}  // namespace rota::internal
