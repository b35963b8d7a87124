#include "direct_writer.hpp"

#include <algorithm>

namespace rota::checkpoint {

namespace {

// Calls `visit(bytes)` for each piece that makes an extent, once it has been hashed and is in the cache.
template <typename Visit>
std::vector<Extent> hash(std::span<const Slab> slabs, Visit&& visit) {
  std::vector<Extent> extents;
  for (const Slab& slab : slabs) {
    for (std::uint64_t at = 0; at < slab.bytes.size(); at += kMaxExtentBytes) {
      const auto bytes = slab.bytes.subspan(at, std::min(kMaxExtentBytes, slab.bytes.size() - at));
      extents.push_back({.offset = slab.offset + at, .length = bytes.size(), .digest = digest(bytes)});
      visit(extents.back(), bytes);
    }
  }
  return extents;
}

}  // namespace

std::vector<Extent> hash_slabs(std::span<const Slab> slabs) {
  return hash(slabs, [](const Extent& /*extent*/, std::span<const std::byte> /*bytes*/) {});
}

std::vector<Extent> write_slabs(const File& file, std::span<const Slab> slabs) {
  return hash(slabs, [&](const Extent& extent, std::span<const std::byte> bytes) {
    file.write(extent.offset, bytes);
  });
}

}  // namespace rota::checkpoint
