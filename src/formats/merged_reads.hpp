#pragma once

// Reads of one file that are made in one call where they touch on disk, or nearly do.

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/records.hpp"

namespace rota::internal {

/// Bytes of a file, and where they belong.
struct WantedBytes {
  std::uint64_t offset = 0;
  std::span<std::byte> to;
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + to.size(); }
};

/// What lies between two of them is read, too, and dropped, where it is no more than this. From the page
/// cache so many bytes cost about as much as another call.
inline constexpr std::size_t kMostGap = 4096;

/// Reads all that is `wanted` of `file`, which is in order of offsets, and may overlap. Throws as
/// RecordFile::read does. Any thread.
void read_merged(const RecordFile& file, std::span<const WantedBytes> wanted);

}  // namespace rota::internal
