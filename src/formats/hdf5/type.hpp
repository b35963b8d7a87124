#pragma once

// Which HDF5 types rota reads.

#include <optional>
#include <string>

#include "hdf5/hdf5.hpp"
#include "rota/dtype.hpp"

namespace rota::internal {

/// Whether `type` holds numbers of any kind, readable here or not: integers, floats, h5py's booleans.
bool is_numeric(hid_t type);

/// The DType whose elements lie in memory as those of `type` do in the file; nothing where there is none.
std::optional<DType> dtype_of(hid_t type);

/// What `type` is, for a message: "big-endian", "strings".
std::string describe(hid_t type);

}  // namespace rota::internal
