#pragma once

// What a checkpoint holds, and where: all that a reader needs to know. The same stands in HDF5's own
// metadata, for other tools.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "rota/checkpoint.hpp"
#include "stored_blobs.hpp"

namespace rota::checkpoint {

/// Where the rows of a tensor lie.
struct TensorPlace {
  std::uint64_t offset = 0;  ///< in the file; of no meaning where there are no bytes
  std::int64_t row_bytes = 0;
  std::uint64_t bytes = 0;  ///< of all rows
  std::uint64_t row_digest = 0;
};

struct Contents {
  std::vector<TensorInfo> tensors;  ///< by name
  std::vector<TensorPlace> places;  ///< of each of them
  std::vector<BlobEntry> blobs;
  std::uint64_t blob_offset = 0;  ///< of their first byte, in the file
  std::uint64_t blob_bytes = 0;   ///< of all of them
};

/// As FORMAT.md says.
[[nodiscard]] std::vector<std::byte> encode_contents(const Contents& contents);

/// Throws Error{corrupt} headed by `what` for whatever FORMAT.md forbids: bad names, types and shapes, data
/// outside of [kPageBytes, hdf5_end) or in two places, owners outside of the world. Takes no more memory than
/// a multiple of what `bytes` take.
[[nodiscard]] Contents decode_contents(std::span<const std::byte> bytes, std::uint64_t hdf5_end,
                                       std::int64_t world_size, std::string_view what);

}  // namespace rota::checkpoint
