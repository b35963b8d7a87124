#pragma once

// Reads rows of one HDF5 dataset by offset, without HDF5.

#include <cstddef>
#include <cstdint>
#include <span>

#include "catalog/files.hpp"
#include "formats/file_memory.hpp"
#include "formats/hdf5/filters.hpp"
#include "formats/hdf5/layout.hpp"

namespace rota::internal {

/// Rows [first, first + count) of a dataset, and where they belong, side by side.
struct PlacedRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

/// A file that is open for reading; `files` and `index` name it in messages.
struct OpenHdf5 {
  int fd;
  const FileMemory* memory;  ///< the same bytes, where they are in memory
  const FileList& files;
  std::size_t index;
};

/// Reads `ranges` of `dataset`, which must lie inside it. A chunk that has to be decoded is decoded once,
/// however many ranges want rows of it. Throws Error{io}, Error{corrupt} naming file, dataset and byte
/// offset. Any thread, each with an `unfilter` of its own.
void read_rows(const OpenHdf5& file, const Hdf5Dataset& dataset, std::span<const PlacedRows> ranges,
               Unfilter& unfilter);

}  // namespace rota::internal
