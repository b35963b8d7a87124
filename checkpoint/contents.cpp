#include "contents.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/bytes.hpp"
#include "extents.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

// Rows and HDF5's other dimensions.
constexpr std::uint32_t kMaxDimensions = 32;

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, std::uint64_t hdf5_end, std::int64_t world_size,
          std::string_view what)
      : bytes_(bytes, what), hdf5_end_(hdf5_end), world_size_(world_size) {}

  Contents run() {
    const auto tensors = bytes_.next<std::uint64_t>();
    for (std::uint64_t i = 0; i < tensors; ++i) add_tensor();
    contents_.blob_offset = bytes_.next<std::uint64_t>();
    contents_.blob_bytes = bytes_.next<std::uint64_t>();
    require(lies_inside(contents_.blob_offset, contents_.blob_bytes), "its blobs lie outside of the file");
    contents_.blobs = decode_entries(bytes_);
    check_blobs();
    require(bytes_.at_end(), "bytes are left over");
    check_overlap();
    return std::move(contents_);
  }

 private:
  void require(bool condition, std::string_view why) const {
    if (!condition) bytes_.fail(why);
  }

  [[nodiscard]] bool lies_inside(std::uint64_t offset, std::uint64_t bytes) const {
    return bytes == 0 || (offset >= kPageBytes && offset < hdf5_end_ && bytes <= hdf5_end_ - offset);
  }

  void add_tensor() {
    TensorInfo info;
    info.name = bytes_.next_string();
    require(is_name(info.name), "a tensor has a bad name");
    require(contents_.tensors.empty() || contents_.tensors.back().name < info.name,
            "its tensors are not in the order of their names");
    info.dtype = next_dtype();
    const auto dimensions = bytes_.next<std::uint32_t>();
    require(dimensions >= 1 && dimensions <= kMaxDimensions, "a tensor has a bad number of dimensions");
    TensorPlace place{.row_bytes = static_cast<std::int64_t>(size_of(info.dtype))};
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      info.shape.push_back(bytes_.next<std::int64_t>());
      require(info.shape.back() >= 0, "a tensor has a negative dimension");
      if (d == 0) continue;
      place.row_bytes = checked_product(place.row_bytes, info.shape.back());
      require(place.row_bytes >= 0, "a tensor is larger than a number can say");
    }
    place.offset = bytes_.next<std::uint64_t>();
    place.row_digest = bytes_.next<std::uint64_t>();
    const std::int64_t bytes = checked_product(info.rows(), place.row_bytes);
    place.bytes = static_cast<std::uint64_t>(bytes);
    require(bytes >= 0 && lies_inside(place.offset, place.bytes), "a tensor lies outside of the file");
    contents_.tensors.push_back(std::move(info));
    contents_.places.push_back(place);
  }

  DType next_dtype() {
    const std::string name = bytes_.next_string();
    try {
      return parse_dtype(name);
    } catch (const Error&) {
      bytes_.fail("a tensor has an unknown type");
    }
  }

  void check(const BlobEntry& blob) const {
    require(is_name(blob.name), "a blob has a bad name");
    require(blob.codec == Codec::raw || blob.codec == Codec::zstd, "a blob has an unknown codec");
    require(blob.rank >= -1 && blob.rank < world_size_, "a blob belongs to a rank that there was not");
    require(blob.bytes / kMaxCompression <= blob.stored_bytes &&
                blob.bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
            "a blob is larger than its stored bytes can say");
  }

  // They lie one after the other, so that none is read twice.
  void check_blobs() const {
    std::uint64_t end = 0;
    std::vector<std::pair<std::int32_t, std::string_view>> names;
    for (const BlobEntry& blob : contents_.blobs) {
      check(blob);
      require(blob.offset == end && blob.stored_bytes <= contents_.blob_bytes - end,
              "a blob is not where the one before ends");
      end += blob.stored_bytes;
      names.emplace_back(blob.rank, blob.name);
    }
    require(end == contents_.blob_bytes, "its blobs are not all of the blobs' bytes");
    std::ranges::sort(names);
    require(std::ranges::adjacent_find(names) == names.end(), "two blobs of one owner have the same name");
  }

  // Else a small file could be made that takes for ever to verify.
  void check_overlap() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // offset, bytes
    for (const TensorPlace& place : contents_.places) {
      if (place.bytes > 0) ranges.emplace_back(place.offset, place.bytes);
    }
    if (contents_.blob_bytes > 0) ranges.emplace_back(contents_.blob_offset, contents_.blob_bytes);
    std::ranges::sort(ranges);
    std::uint64_t end = 0;
    for (const auto& [offset, bytes] : ranges) {
      require(offset >= end, "two tensors, or a tensor and the blobs, have bytes in common");
      end = offset + bytes;
    }
  }

  internal::ByteReader bytes_;
  std::uint64_t hdf5_end_;
  std::int64_t world_size_;
  Contents contents_;
};

}  // namespace

std::vector<std::byte> encode_contents(const Contents& contents) {
  std::vector<std::size_t> order(contents.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::string_view(contents.tensors[i].name); });
  internal::ByteWriter bytes;
  bytes.add(static_cast<std::uint64_t>(order.size()));
  for (const std::size_t i : order) {
    const TensorInfo& info = contents.tensors[i];
    bytes.add_string(info.name);
    bytes.add_string(to_string(info.dtype));
    bytes.add(static_cast<std::uint32_t>(info.shape.size()));
    for (const std::int64_t length : info.shape) bytes.add(length);
    bytes.add(contents.places[i].offset);
    bytes.add(contents.places[i].row_digest);
  }
  bytes.add(contents.blob_offset);
  bytes.add(contents.blob_bytes);
  encode_entries(contents.blobs, bytes);
  return std::move(bytes).take();
}

Contents decode_contents(std::span<const std::byte> bytes, std::uint64_t hdf5_end, std::int64_t world_size,
                         std::string_view what) {
  return Decoder(bytes, hdf5_end, world_size, what).run();
}

}  // namespace rota::checkpoint
