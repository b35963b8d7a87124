#pragma once

// Reads rows of one HDF5 dataset by offset, without HDF5.

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/hdf5/layout.hpp"
#include "formats/records.hpp"

namespace rota::internal {

/// Rows [first, first + count) of a dataset, and where they belong, side by side.
struct PlacedRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

/// Reads `ranges` of `dataset`, which must lie inside it. A chunk that has to be decoded is decoded once,
/// however many ranges want rows of it. Throws Error{io}, Error{corrupt} naming file and byte offset. Any
/// thread.
void read_rows(const RecordFile& file, const Hdf5Dataset& dataset, std::span<const PlacedRows> ranges);

}  // namespace rota::internal
