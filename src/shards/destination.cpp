#include "shards/destination.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "catalog/location.hpp"
#include "core/caught.hpp"
#include "files/descriptor.hpp"
#include "files/temporary.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kTemporaryEnding = ".tmp";

const FileSystem& files() { return posix_file_system(); }

}  // namespace

Destination::Destination(const std::string& path, const Storages& storages)
    : path_(local_path(path)), storages_(storages), stored_(parse_stored(path_, storages)) {
  if (path_.empty()) throw Error(ErrorCode::invalid_argument, "write shards: name a directory for them");
  if (!path_.ends_with('/')) path_ += '/';
  if (stored_.storage == nullptr) {
    make_directory(files(), path_);
  } else if (!stored_.name.empty() && !stored_.name.ends_with('/')) {
    stored_.name += '/';
  }
}

std::map<std::string, std::uint64_t> Destination::list() const {
  std::map<std::string, std::uint64_t> found;
  list_directory(path_, storages_, "", [&](const std::string& name, const StoredFile* file) {
    if (name.empty() || name.starts_with('.')) return true;
    std::error_code is_none;
    const auto bytes = file != nullptr ? file->bytes : std::filesystem::file_size(path_ + name, is_none);
    found[name] = is_none ? 0 : bytes;
    return true;
  });
  return found;
}

bool Destination::holds(const std::string& name, std::span<const std::byte> bytes) const {
  const auto file = open_file(path_ + name, storages_);
  if (!file || file->bytes() != bytes.size()) return false;
  std::vector<std::byte> found(bytes.size());
  file->read(0, found);
  return std::ranges::equal(found, bytes);
}

void Destination::put(const std::string& name, std::span<const std::byte> bytes) const {
  constexpr int kMostTries = 4;
  for (int tries = 1;; ++tries) {
    try {
      return replace_file(path_ + name, bytes, storages_);
    } catch (...) {
      // Another process that ends now may take the new file for one that a kill has left, and remove it.
      if (stored_.storage == nullptr && tries < kMostTries) continue;
      throw caught().as_error_of(path_ + name, fmt::format("write {}", path_ + name));
    }
  }
}

void Destination::remove(const std::string& name) const {
  try {
    if (stored_.storage != nullptr) return stored_.storage->remove(stored_.name + name);
    if (::unlink((path_ + name).c_str()) != 0 && errno != ENOENT) {
      throw write_error("remove", path_ + name, errno);
    }
  } catch (...) {
    throw caught().as_error_of(path_ + name, fmt::format("remove {}", path_ + name));
  }
}

void Destination::sweep(std::initializer_list<std::string_view> stems) const {
  if (stored_.storage != nullptr) return;
  for (const std::string& name : list_names(files(), path_)) {
    const bool is_ours = std::ranges::any_of(stems, [&](std::string_view stem) {
      return name.starts_with('.') && std::string_view(name).substr(1).starts_with(stem);
    });
    const bool is_temporary = is_ours && name.ends_with(kTemporaryEnding);
    if (is_temporary && is_dead(files(), path_ + name)) remove(name);
  }
}

}  // namespace rota::internal
