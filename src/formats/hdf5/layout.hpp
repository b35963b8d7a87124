#pragma once

// Where the rows of an HDF5 dataset lie in its file, and in what form. Asked of HDF5 once, at open.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hdf5/hdf5.hpp"
#include "rota/dtype.hpp"
#include "source/stored_type.hpp"

namespace rota::internal {

enum class Hdf5Storage {
  contiguous,  ///< one stretch of the file
  chunked,     ///< chunks, by number
  by_library,  ///< as HDF5 reads it, `chunk` of it at a time: a view of other datasets, or of other filters
  memory,      ///< kept in the file's header; read at open
  absent,      ///< never written: the fill value
};

/// A chunk as it is stored. Chunks are numbered row-major over the grid of chunks.
struct StoredChunk {
  std::int64_t number = 0;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t filter_mask = 0;  ///< bit i set: filters[i] was left out

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(number, address, bytes, filter_mask);
  }
};
static_assert(sizeof(StoredChunk) <= 24);

/// One dataset, [rows, row shape...]. *Immutable.*
struct Hdf5Dataset {
  std::string name;                  ///< from the root, with a leading slash
  StoredType type;                   ///< of an element
  DType dtype = DType::uint8;        ///< as which it is read
  std::vector<std::int64_t> extent;  ///< of every dimension, at least one, and those of an element
  bool is_scalar = false;            ///< one row, of one element
  Hdf5Storage storage = Hdf5Storage::absent;
  std::vector<std::byte> fill;      ///< one element; empty: zeros
  std::uint64_t heap_base = 0;      ///< from which addresses in its elements count
  std::uint64_t address = 0;        ///< contiguous: of row 0
  std::vector<std::byte> contents;  ///< memory: all rows
  std::vector<std::int64_t> chunk;  ///< chunked: extent of a chunk, of every dimension
  std::vector<int> filters;         ///< chunked: as applied when writing, by their registered ids
  std::vector<StoredChunk> chunks;  ///< chunked: those that were written, by number
  std::map<std::string, std::int64_t> parts =
      {};                            ///< by_library: files that it is a view of, and their bytes
  std::int64_t chunks_per_slab = 1;  ///< chunked: chunks side by side that hold the same rows

  [[nodiscard]] std::int64_t rows() const noexcept { return extent[0]; }
  [[nodiscard]] std::vector<std::int64_t> row_shape() const { return {extent.begin() + 1, extent.end()}; }
  [[nodiscard]] std::size_t row_bytes() const noexcept;
  [[nodiscard]] std::size_t chunk_bytes() const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return row_bytes() * static_cast<std::size_t>(rows()); }
  /// Chunked: rows lie side by side in chunks, as they do in memory.
  [[nodiscard]] bool has_whole_rows() const noexcept {
    return chunks_per_slab == 1 && chunk_bytes() == row_bytes() * static_cast<std::size_t>(chunk[0]);
  }
  /// Rows come with others, and have to be decoded.
  [[nodiscard]] bool is_decoded() const noexcept {
    return storage == Hdf5Storage::by_library ||
           (storage == Hdf5Storage::chunked && (!filters.empty() || !has_whole_rows()));
  }
  /// The same of the rows of one slab.
  [[nodiscard]] bool is_decoded(std::int64_t slab) const noexcept;
  /// Chunked: of the whole grid, written or not.
  [[nodiscard]] std::int64_t grid_chunks() const noexcept {
    return ((extent[0] - 1) / chunk[0] + 1) * chunks_per_slab;
  }
  /// How many of them were not; of what is not chunked, all of it is one.
  [[nodiscard]] std::int64_t unwritten_chunks() const noexcept;
  /// The stored chunk `number`, or null where it was never written. O(1) where all were, else O(log chunks).
  [[nodiscard]] const StoredChunk* find(std::int64_t number) const noexcept;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, type, dtype, extent, is_scalar, storage, fill, heap_base, address, contents, chunk, filters,
            chunks, parts, chunks_per_slab);
  }
};

/// The file that a dataset is asked about.
struct Hdf5Subject {
  hdf5::AddressFile& file;
  const std::string& path;
  std::uint64_t bytes = 0;  ///< of the whole file
  bool is_stored = false;   ///< in a Storage
  bool may_leave = false;   ///< for files in other directories

  /// "open PATH: dataset "NAME"", for messages.
  [[nodiscard]] std::string what(const std::string& name) const;
};

/// Asks where dataset `name` lies. Throws Error{unsupported} for a type, filter or storage that rota does not
/// read, Error{corrupt} for bytes past the end of the file, Error{invalid_argument} for a scalar,
/// unless it `may_be_scalar`, as one row.
Hdf5Dataset ask_dataset(const Hdf5Subject& subject, const std::string& name, bool may_be_scalar = false);

/// How elements of `type` lie in a file; nothing where rota cannot read them. `what` heads its errors.
std::optional<StoredType> stored_type(hid_t type, const std::string& what);

/// What `type` is, for a message: "text", "padded integers of 4 bytes".
std::string describe(hid_t type);

}  // namespace rota::internal
