#include "catalog/directory.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "storage/descriptor.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kBufferBytes = 1 << 18;

enum class EntryKind { file, directory, other };

EntryKind kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return EntryKind::directory;
  return S_ISREG(mode) ? EntryKind::file : EntryKind::other;
}

EntryKind kind_of(const dirent64& entry, int fd, std::string_view shown) {
  switch (entry.d_type) {
    case DT_REG:
      return EntryKind::file;
    case DT_DIR:
      return EntryKind::directory;
    case DT_LNK:
    case DT_UNKNOWN:
      return kind_of(stat_entry(fd, &entry.d_name[0], shown).st_mode);
    default:
      return EntryKind::other;
  }
}

// The first eight bytes, so that they compare as numbers.
std::uint64_t key_of(std::string_view name) {
  std::uint64_t key = 0;
  std::memcpy(&key, name.data(), std::min(name.size(), sizeof(key)));
  return std::endian::native == std::endian::little ? __builtin_bswap64(key) : key;
}

}  // namespace

DirectoryListing::DirectoryListing(int fd, std::string_view shown) {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  for (;;) {
    const ssize_t bytes = ::getdents64(fd, buffer.get(), kBufferBytes);
    if (bytes < 0) throw Error(ErrorCode::io, system_error("list", shown, errno).what());
    if (bytes == 0) break;
    for (ssize_t at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.get() + at);
      at += entry->d_reclen;
      const std::string_view name(&entry->d_name[0]);
      if (name == "." || name == "..") continue;
      const EntryKind kind = kind_of(*entry, fd, shown);
      if (kind != EntryKind::other) add(name, kind == EntryKind::directory);
    }
  }
  sort();
}

void DirectoryListing::add(std::string_view name, bool is_directory) {
  places_.push_back({.packed = text_.size() << 17U | name.size() << 1U | (is_directory ? 1U : 0U)});
  text_.append(name).push_back(is_directory ? '/' : '\0');
}

void DirectoryListing::sort() {
  if (places_.empty()) return;
  std::string_view common = sorted_name(places_.front());
  for (const SortedName& place : places_) {
    const std::string_view name = sorted_name(place);
    const std::size_t most = std::min(name.size(), common.size());
    if (std::memcmp(name.data(), common.data(), most) == 0 && most == common.size()) continue;
    common = common.substr(
        0, static_cast<std::size_t>(
               std::mismatch(common.begin(), common.begin() + static_cast<std::ptrdiff_t>(most), name.begin())
                   .first -
               common.begin()));
  }
  for (SortedName& place : places_) place.key = key_of(sorted_name(place).substr(common.size()));
  std::sort(places_.begin(), places_.end(), [this, &common](const SortedName& a, const SortedName& b) {
    if (a.key != b.key) return a.key < b.key;
    return sorted_name(a).substr(common.size()) < sorted_name(b).substr(common.size());
  });
}

}  // namespace rota::internal
