#pragma once

// What the HDF5 part of a checkpoint holds, and where: after this, HDF5 is not needed any more.

#include <cstdint>
#include <string>
#include <vector>

#include "blob_pack.hpp"
#include "rota/checkpoint.hpp"

namespace rota::checkpoint {

/// Where the rows of a tensor lie.
struct TensorPlace {
  std::uint64_t offset = 0;  ///< in the file
  std::int64_t row_bytes = 0;
  std::uint64_t row_digest = 0;
};

struct Structure {
  std::vector<TensorInfo> tensors;  ///< by name
  std::vector<TensorPlace> places;  ///< of each of them
  std::vector<BlobEntry> blobs;
  std::uint64_t blob_offset = 0;  ///< of their first byte, in the file
};

/// Opens `path` with HDF5, under its lock, and checks types, shapes, layouts and that all data lies before
/// `hdf5_end`. The file's bytes are to be verified before: HDF5 itself may hang on damaged ones. Throws
/// Error{corrupt} for what is not as FORMAT.md says, and Error{io} where HDF5 itself fails, which good bytes
/// give no reason for.
[[nodiscard]] Structure read_structure(const std::string& path, std::uint64_t hdf5_end);

}  // namespace rota::checkpoint
