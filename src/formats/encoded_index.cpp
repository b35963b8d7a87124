#include "formats/encoded_index.hpp"

#include "core/bytes.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

// Numbers of samples and of ranges, and how the file is packed; then come the ranges, and the keys.
struct PackedHead {
  std::int64_t samples = 0;
  std::uint64_t ranges = 0;
  std::uint64_t compression = 0;
  std::int64_t raw_bytes = 0;
};
static_assert(sizeof(PackedHead) % alignof(ByteRange) == 0);

[[noreturn]] void fail() {
  throw Error(ErrorCode::corrupt, "read an index of samples: it is damaged; index the files again");
}

}  // namespace

std::vector<std::byte> encode_index(const RecordIndex& index, const FileEncoding& as) {
  const PackedHead head{.samples = index.samples,
                        .ranges = index.ranges.size(),
                        .compression = static_cast<std::uint64_t>(as.compression),
                        .raw_bytes = as.raw_bytes};
  std::vector<std::byte> bytes;
  const auto put = [&bytes](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  bytes.reserve(sizeof(head) + std::span(index.ranges).size_bytes() + index.keys.bytes().size());
  put(std::as_bytes(std::span(&head, 1)));
  put(std::as_bytes(std::span(index.ranges)));
  if (index.keys.size() > 0) put(index.keys.bytes());
  return bytes;
}

EncodedIndex::EncodedIndex(std::span<const std::byte> bytes, std::size_t fields) {
  if (bytes.size() < sizeof(PackedHead)) fail();
  const auto head = load<PackedHead>(bytes);
  bytes = bytes.subspan(sizeof(head));
  const std::uint64_t most = bytes.size() / sizeof(ByteRange);
  if (head.samples < 0 || head.ranges > most || head.raw_bytes < 0) fail();
  if (head.ranges % fields != 0 || head.ranges / fields != static_cast<std::uint64_t>(head.samples)) fail();
  if (head.compression > static_cast<std::uint64_t>(Compression::other)) fail();
  samples = head.samples;
  encoding = {.compression = static_cast<Compression>(head.compression), .raw_bytes = head.raw_bytes};
  ranges = {reinterpret_cast<const ByteRange*>(bytes.data()), head.ranges};
  bytes = bytes.subspan(ranges.size_bytes());
  if (bytes.empty()) return;
  keys = NameTable(bytes, nullptr);
  if (keys.size() != static_cast<std::uint64_t>(samples)) fail();
}

}  // namespace rota::internal
