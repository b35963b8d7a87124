#pragma once

// What one directory holds, in the order that whole paths have.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rota::internal {

/// The regular files of a directory, and its directories; symbolic links are what they lead to. Sorted
/// by their bytes as unsigned numbers, a directory as if its name ended in a slash: so that the files below
/// it stand where their paths do. *Immutable.*
class DirectoryListing {
 public:
  struct DirectoryEntry {
    std::string_view name;
    bool is_directory;
  };

  DirectoryListing() = default;
  /// Reads the directory that is open as `fd`; `shown` is its path, with a slash, for messages. Asks for what
  /// an entry is only where the file system does not say. Throws Error{io} naming an entry that cannot be
  /// read or links to nothing, Error{unsupported} naming a cycle of symbolic links.
  DirectoryListing(int fd, std::string_view shown);

  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] DirectoryEntry operator[](std::size_t i) const noexcept { return entry(places_[i]); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return text_.capacity() + places_.capacity() * sizeof(SortedName);
  }

 private:
  // Where a name lies in text_, and the eight bytes of it behind what all have in common.
  struct SortedName {
    std::uint64_t key = 0;
    std::uint64_t packed = 0;  // offset, 16 bits of length, one of being a directory
    [[nodiscard]] std::size_t offset() const noexcept { return packed >> 17U; }
    [[nodiscard]] std::size_t length() const noexcept { return (packed >> 1U) & 0xFFFFU; }
    [[nodiscard]] bool is_directory() const noexcept { return (packed & 1U) != 0; }
  };
  [[nodiscard]] DirectoryEntry entry(const SortedName& place) const noexcept {
    return {.name = std::string_view(text_).substr(place.offset(), place.length()),
            .is_directory = place.is_directory()};
  }
  // With the slash of a directory.
  [[nodiscard]] std::string_view sorted_name(const SortedName& place) const noexcept {
    return std::string_view(text_).substr(place.offset(), place.length() + (place.is_directory() ? 1U : 0U));
  }
  void add(std::string_view name, bool is_directory);
  void sort();

  std::string text_;
  std::vector<SortedName> places_;
};

}  // namespace rota::internal
