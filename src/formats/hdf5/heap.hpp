#pragma once

// What HDF5 keeps in global heaps, elements of their own length (HDF5 File Format Specification 3.0, III.E).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/open_files.hpp"

namespace rota::internal {

/// An object of a heap that is to be read.
struct HeapRead {
  OpenFiles::SharedFile file;
  std::uint64_t address = 0;  ///< of its collection
  std::uint32_t index = 0;    ///< in that
  std::span<std::byte> to;    ///< all of it
};

/// Reads all, those of a collection together. Blocks on storage. Any thread. Throws as DatasetFile::read
/// does, Error{corrupt} where the files have no such heaps.
void read_from_heap(const OpenFiles& files, std::vector<HeapRead> reads);

}  // namespace rota::internal
