#pragma once

// What an HDF5 file begins with.

#include <cstdint>
#include <optional>

#include "files/dataset_file.hpp"
#include "hdf5/address_file.hpp"

namespace rota::internal {

/// Where HDF5's signature stands: at byte 0 or, after a user block, at 512, 1024, 2048, ... (HDF5 File Format
/// Specification 3.0, II.A). Throws what `bytes.read` throws; nothing, too, where that fails.
std::optional<std::uint64_t> find_hdf5_signature(const hdf5::FileBytes& bytes);

/// Throws Error{busy} where `file`, whose bytes are `bytes`, is being written, or was left so by its writer.
/// The file says so, from version 2 of its superblock on, or a lock does: what was written may not be there
/// yet, and would be read as zeros.
void require_finished(const DatasetFile& file, const hdf5::FileBytes& bytes);

}  // namespace rota::internal
