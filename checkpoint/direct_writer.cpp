#include "direct_writer.hpp"

#include <algorithm>

namespace rota::checkpoint {

std::vector<Extent> write_slabs(const File& file, std::span<const Slab> slabs) {
  std::vector<Extent> extents;
  for (const Slab& slab : slabs) {
    for (std::uint64_t at = 0; at < slab.bytes.size(); at += kMaxExtentBytes) {
      const auto bytes = slab.bytes.subspan(at, std::min(kMaxExtentBytes, slab.bytes.size() - at));
      extents.push_back({.offset = slab.offset + at, .length = bytes.size(), .digest = digest(bytes)});
      file.write(slab.offset + at, bytes);
    }
  }
  return extents;
}

}  // namespace rota::checkpoint
