#pragma once

// Writes this rank's part of a file with pwrite, next to the other ranks.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extents.hpp"
#include "file_system.hpp"

namespace rota::checkpoint {

/// Bytes in memory and their place in the file.
struct Slab {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// The extents of `slabs`, hashed from memory.
[[nodiscard]] std::vector<Extent> hash_slabs(std::span<const Slab> slabs);

/// Writes `slabs` to `file`, and returns their extents, hashed from memory.
[[nodiscard]] std::vector<Extent> write_slabs(const File& file, std::span<const Slab> slabs);

}  // namespace rota::checkpoint
