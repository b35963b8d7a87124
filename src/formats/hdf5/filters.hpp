#pragma once

// Undoes HDF5's deflate, zstd and shuffle filters without HDF5.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "formats/hdf5/layout.hpp"

namespace rota::internal {

/// Turns stored chunks back into elements. Keeps its buffers from one chunk to the next. One thread.
class Unfilter {
 public:
  Unfilter();
  ~Unfilter();
  Unfilter(const Unfilter&) = delete;
  Unfilter& operator=(const Unfilter&) = delete;

  /// Undoes the filters of `dataset` that `filter_mask` did not leave out, from `stored` into `to`, which has
  /// the size of a chunk. False where `stored` is not what those filters make of such a chunk.
  [[nodiscard]] bool run(const Hdf5Dataset& dataset, std::uint32_t filter_mask,
                         std::span<const std::byte> stored, std::span<std::byte> to);

 private:
  [[nodiscard]] bool inflate_into(std::span<const std::byte> from, std::span<std::byte> to);
  [[nodiscard]] bool unzstd_into(std::span<const std::byte> from, std::span<std::byte> to);

  struct Stream;
  struct ZstdContext;
  std::unique_ptr<Stream> stream_;  // made when first needed, as is the next
  std::unique_ptr<ZstdContext> zstd_;
  std::array<std::vector<std::byte>, 2> between_;
};

}  // namespace rota::internal
