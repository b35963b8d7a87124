#include "extents.hpp"

#include <fmt/format.h>

#include <cassert>

#include "little_endian.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {

std::vector<std::byte> encode_extents(std::span<const Extent> extents) {
  std::vector<std::byte> bytes(extents.size() * kExtentEntryBytes);
  std::size_t at = 0;
  for (const Extent& extent : extents) {
    put(bytes, at, extent.offset);
    put(bytes, at + 8, extent.length);
    put(bytes, at + 16, extent.digest.low);
    put(bytes, at + 24, extent.digest.high);
    at += kExtentEntryBytes;
  }
  return bytes;
}

std::vector<Extent> decode_extents(std::span<const std::byte> bytes) {
  assert(bytes.size() % kExtentEntryBytes == 0);
  std::vector<Extent> extents(bytes.size() / kExtentEntryBytes);
  std::size_t at = 0;
  for (Extent& extent : extents) {
    extent.offset = get<std::uint64_t>(bytes, at);
    extent.length = get<std::uint64_t>(bytes, at + 8);
    extent.digest.low = get<std::uint64_t>(bytes, at + 16);
    extent.digest.high = get<std::uint64_t>(bytes, at + 24);
    at += kExtentEntryBytes;
  }
  return extents;
}

std::uint64_t cover(std::span<const Extent> extents, std::uint64_t begin, std::uint64_t end,
                    std::string_view what) {
  for (const Extent& extent : extents) {
    if (extent.offset != begin || extent.length == 0 || extent.length > kMaxExtentBytes ||
        extent.length > end - begin) {
      throw Error(ErrorCode::corrupt,
                  fmt::format("{}: the extent table has {} bytes at {} where byte {} of {} is next", what,
                              extent.length, extent.offset, begin, end));
    }
    begin += extent.length;
  }
  return begin;
}

void require_whole(std::uint64_t covered, std::uint64_t end, std::string_view what) {
  if (covered == end) return;
  throw Error(ErrorCode::corrupt,
              fmt::format("{}: the extent table ends at byte {} of {}", what, covered, end));
}

}  // namespace rota::checkpoint
