#pragma once

// The filters of HDF5's chunks.

#include <zstd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/owned.hpp"
#include "formats/hdf5/layout.hpp"

namespace rota::internal {

/// Undoes the filters of chunks. Keeps its buffers from one to the next. *One thread.*
class Unfilter {
 public:
  /// Undoes those filters of `dataset` that `filter_mask` did not leave out, from `stored` into `to`, which
  /// has the size of a chunk. False where `stored` is not what those filters make of such a chunk.
  [[nodiscard]] bool run(const Hdf5Dataset& dataset, std::uint32_t filter_mask,
                         std::span<const std::byte> stored, std::span<std::byte> to);

 private:
  bool undo(int filter, const Hdf5Dataset& dataset, std::span<const std::byte> from, std::span<std::byte> to);

  std::unique_ptr<ZSTD_DCtx, FreeBy<ZSTD_freeDCtx>> zstd_;  // made when first needed
  std::array<std::vector<std::byte>, 2> between_;
};

/// Rows of a dataset that is left to HDF5, from `first` on: into `to`, as many as fit or are there. `path` is
/// of its file. Throws Error{corrupt} where HDF5 cannot, Error{io}, Error{not_found} where a part is missing.
void read_by_library(const std::string& path, const Hdf5Dataset& dataset, std::int64_t first,
                     std::span<std::byte> to);

/// Whether HDF5 must undo these: some are not deflate, shuffle, fletcher32, zstd, lz4 or lzf, or two
/// compress.
[[nodiscard]] bool need_library(const std::vector<int>& filters) noexcept;
/// How many bytes one of its own makes of one at most.
[[nodiscard]] std::uint64_t most_ratio(int filter) noexcept;

}  // namespace rota::internal
