#pragma once

// Which HDF5 types rota reads.

#include <optional>
#include <string>

#include "hdf5/hdf5.hpp"
#include "source/stored_type.hpp"

namespace rota::internal {

/// How elements of `type` lie in a file; nothing where rota cannot read them. `what` heads its errors.
std::optional<StoredType> stored_type(hid_t type, const std::string& what);

/// What `type` is, for a message: "text", "padded integers of 4 bytes".
std::string describe(hid_t type);

}  // namespace rota::internal
