#pragma once

// Reads of many ranges of files at once.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "files/dataset_file.hpp"

namespace rota::internal {

/// Bytes of a file, and where they belong.
struct WantedBytes {
  const DatasetFile* file = nullptr;
  std::uint64_t offset = 0;
  std::span<std::byte> to;
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + to.size(); }
};

/// What lies between two of them is read, too, and dropped, where it is no more than this. From the page
/// cache so many bytes cost about as much as another call.
inline constexpr std::size_t kMostGap = 4096;

/// Reads all that is `wanted`, of one place: that of a file side by side, by offset; ranges may overlap.
/// Those that touch in a file, or nearly do, are read in one call. What is not in the page cache is under way
/// together. Blocks on storage. Throws as DatasetFile::read does, for the first that fails. Any thread.
void read_at_once(std::span<const WantedBytes> wanted);

/// The same of files that are in one storage, and not in memory: all of them by one call of it.
void read_from_storage(std::span<const WantedBytes> wanted);

/// Has things read one after the other, each begun some way before it is waited for. `begin()` begins to read
/// the next one, and returns of how many bytes, or nothing where there are no more; `end()` waits for the
/// oldest that has begun, and takes it.
///
/// Many are begun before the first is waited for, and no more until half of them are over: so a thread sleeps
/// seldom, for most that it comes to has come meanwhile.
template <typename Begin, typename End>
void read_ahead(Begin begin, End end, std::size_t most_reads = 512) {
  constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  std::deque<std::size_t> under_way;
  std::size_t bytes = 0;
  bool is_more = true;
  do {
    while (is_more && under_way.size() < most_reads && bytes < kMostBytes) {
      const std::optional<std::size_t> begun = begin();
      is_more = begun.has_value();
      if (is_more) under_way.push_back(*begun);
      bytes += begun.value_or(0);
    }
    const std::size_t kept = is_more ? under_way.size() / 2 : 0;
    while (under_way.size() > kept) {
      end();
      bytes -= under_way.front();
      under_way.pop_front();
    }
  } while (is_more || !under_way.empty());
}

}  // namespace rota::internal
