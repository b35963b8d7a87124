#pragma once

// The extent table: which bytes of the file have which digest.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "digest.hpp"

namespace rota::checkpoint {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kMaxExtentBytes = 1 << 20;
inline constexpr std::uint64_t kExtentEntryBytes = 32;

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Digest digest;
};
static_assert(sizeof(Extent) == kExtentEntryBytes);

/// Bytes in memory and their place in the file.
struct Slab {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// Of how many extents `bytes` contiguous bytes make.
[[nodiscard]] constexpr std::uint64_t extents_of(std::uint64_t bytes) noexcept {
  return (bytes + kMaxExtentBytes - 1) / kMaxExtentBytes;
}

/// The table as it lies in the file, and back. `decode_extents` needs a multiple of kExtentEntryBytes.
[[nodiscard]] std::vector<std::byte> encode_extents(std::span<const Extent> extents);
[[nodiscard]] std::vector<Extent> decode_extents(std::span<const std::byte> bytes);

/// Throws Error{corrupt} unless `extents` cover [begin, end), or its first part, in order, each byte once, in
/// pieces of 1 to kMaxExtentBytes. Returns where they end. `what` heads the message.
[[nodiscard]] std::uint64_t cover(std::span<const Extent> extents, std::uint64_t begin, std::uint64_t end,
                                  std::string_view what);
/// Throws Error{corrupt} unless all is covered.
void require_whole(std::uint64_t covered, std::uint64_t end, std::string_view what);

}  // namespace rota::checkpoint
