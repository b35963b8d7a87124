#include "extents.hpp"

#include <algorithm>
#include <cassert>

#include "core/failure.hpp"

namespace rota::checkpoint {

std::vector<std::byte> encode_extents(std::span<const Extent> extents) {
  const auto bytes = std::as_bytes(extents);
  return {bytes.begin(), bytes.end()};
}

std::vector<Extent> decode_extents(std::span<const std::byte> bytes) {
  assert(bytes.size() % kExtentEntryBytes == 0);
  std::vector<Extent> extents(bytes.size() / kExtentEntryBytes);
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(extents)).begin());
  return extents;
}

std::uint64_t cover(std::span<const Extent> extents, std::uint64_t begin, std::uint64_t end,
                    std::string_view what) {
  for (const Extent& extent : extents) {
    if (extent.offset != begin || extent.length == 0 || extent.length > kMaxExtentBytes ||
        extent.length > end - begin) {
      throw internal::failure(ErrorCode::corrupt,
                              "{}: the extent table has {} bytes at {} where byte {} of {} is next", what,
                              extent.length, extent.offset, begin, end);
    }
    begin += extent.length;
  }
  return begin;
}

void require_whole(std::uint64_t covered, std::uint64_t end, std::string_view what) {
  if (covered == end) return;
  throw internal::failure(ErrorCode::corrupt, "{}: the extent table ends at byte {} of {}", what, covered,
                          end);
}

}  // namespace rota::checkpoint
