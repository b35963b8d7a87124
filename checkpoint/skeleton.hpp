#pragma once

// The HDF5 part of a checkpoint without its data: groups, datasets that are allotted but not written, and
// attributes.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "blob_pack.hpp"
#include "commit_page.hpp"
#include "rota/dtype.hpp"
#include "sparse_image.hpp"

namespace rota::checkpoint {

/// A tensor as the file describes it.
struct TensorRecord {
  std::string name;
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape;  // [rows, row_shape...]
  std::uint64_t row_digest = 0;
};

/// Where data goes. Offsets of what has no bytes are 0.
struct Skeleton {
  SparseImage image;  ///< all of [kPageBytes, image.end()) but the data
  std::vector<std::uint64_t> tensor_offsets;
  std::uint64_t blob_offset = 0;
};

/// Makes it under HDF5's lock. Of `page` only what the caller knows by now is used. Throws Error{io} where
/// HDF5 fails.
[[nodiscard]] Skeleton make_skeleton(std::span<const TensorRecord> tensors, const BlobPack& blobs,
                                     const CommitPage& page);

/// The path of a tensor's dataset in the file, and back; "" for a path that is no tensor's.
[[nodiscard]] std::string dataset_path(std::string_view tensor_name);
[[nodiscard]] std::string tensor_name(std::string_view dataset_path);

inline constexpr std::string_view kBlobIndexPath = "/blobs/index";
inline constexpr std::string_view kBlobBytesPath = "/blobs/bytes";

/// A row of the blob index in memory; its name is kept apart, for its length varies between files.
struct BlobIndexRow {
  std::int32_t rank;
  std::uint8_t codec;
  std::uint64_t offset;
  std::uint64_t stored_bytes;
  std::uint64_t bytes;
  std::uint64_t checksum_low;
  std::uint64_t checksum_high;
};

/// The in-memory compound type of a BlobIndexRow followed by a name of `name_bytes`.
[[nodiscard]] hdf5::Datatype blob_index_type(std::size_t name_bytes);

}  // namespace rota::checkpoint
