#pragma once

// Reads rows of HDF5 datasets by offset, and what is in global heaps, without HDF5.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "files/reads.hpp"
#include "formats/hdf5/chunk_memory.hpp"
#include "formats/hdf5/layout.hpp"
#include "formats/open_files.hpp"

namespace rota::internal {

/// Rows [first, first + count) of a dataset, and where they belong, side by side.
struct PlacedRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

/// Rows that one file holds.
struct FileRange {
  std::size_t file = 0;
  const Hdf5Dataset* dataset = nullptr;
  PlacedRows rows;
};
/// Rows that follow one another in a file and in memory make one range.
void append(std::vector<FileRange>& ranges, const FileRange& range);

/// Visits the parts of `rows` that slabs of `dataset` have, which is chunked.
template <typename Visit>
void each_slab(const Hdf5Dataset& dataset, PlacedRows rows, Visit visit) {
  while (rows.count > 0) {
    const std::int64_t in_slab = rows.first % dataset.chunk[0];
    const std::int64_t count = std::min(dataset.chunk[0] - in_slab, rows.count);
    visit(RowPiece{rows.first / dataset.chunk[0], in_slab, count, rows.to});
    if (rows.to != nullptr) rows.to += static_cast<std::size_t>(count) * dataset.row_bytes();
    rows.first += count;
    rows.count -= count;
  }
}
/// Takes `rows` from a memory without bytes, dataset by dataset, slab by slab, as RowReader does.
void pass_rows(ChunkMemory& memory, std::vector<ChunkMemory::Rows> rows);

/// A slab that has to be decoded, and which of the pieces of a RowReader want rows of it.
struct EncodedSlab {
  const DatasetFile* file;
  const Hdf5Dataset* dataset;
  std::int64_t slab;
  bool is_late;  ///< another thread decodes it
  std::size_t first_piece;
  std::size_t pieces;
};

class SlabDecoder;

/// What all reads of a source share. *Any thread.*
struct SharedReads {
  explicit SharedReads(std::size_t limit) : memory(limit) {}
  ChunkMemory memory;
  /// Opens the file of a dataset. Empty: nothing is decoded before it is read.
  std::function<OpenFiles::SharedFile(const Hdf5Dataset&)> open = {};
  Mutex mutex = {};
  std::vector<std::shared_ptr<SlabDecoder>> unused ROTA_GUARDED_BY(mutex) = {};
};

/// Reads rows of datasets, those of several files together. *One thread.*
class RowReader {
 public:
  /// `shared` must outlive it.
  explicit RowReader(SharedReads& shared) noexcept : shared_(shared) {}
  /// Rows `ranges` of `dataset`, which must lie inside it, are to be read from `opened`, which is kept.
  /// The others must live until `read` is over. What no file has is there at once.
  void add(OpenFiles::SharedFile opened, const Hdf5Dataset& dataset, std::span<const PlacedRows> ranges);
  /// How many `add` that `read` has not come to.
  [[nodiscard]] std::size_t files() const noexcept { return files_.size(); }
  /// Reads all that was added, as `files` reads. Rows of chunks that have to be decoded come from memory,
  /// or go there. Throws Error{io}, Error{corrupt} naming file and byte offset.
  void read(const OpenFiles& files);

 private:
  void add_chunks(const DatasetFile& file, const Hdf5Dataset& dataset, std::span<const PlacedRows> ranges);
  void add_slab(const DatasetFile& file, const Hdf5Dataset& dataset, std::size_t first, std::size_t count);

  SharedReads& shared_;
  std::vector<OpenFiles::SharedFile> files_;
  std::vector<WantedBytes> plain_;
  std::vector<EncodedSlab> encoded_;
  std::vector<RowPiece> pieces_;
};

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
