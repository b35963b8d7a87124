#pragma once

// A file in memory of which only the pages that were written take room. HDF5 makes a checkpoint's skeleton in
// one: it allots datasets of any size without touching them, and does no I/O of its own that could fail.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "hdf5/hdf5.hpp"

namespace rota::checkpoint {

class SparseImage {
 public:
  /// Zeros where nothing was written.
  void read(std::uint64_t at, std::span<std::byte> out) const;
  void write(std::uint64_t at, std::span<const std::byte> data);
  /// One past the last byte allotted.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  void set_end(std::uint64_t end) noexcept { end_ = end; }

 private:
  std::map<std::uint64_t, std::vector<std::byte>> pages_;  // by number
  std::uint64_t end_ = 0;
};

/// An HDF5 driver, registered while this lives, that keeps a file in a SparseImage. Make and use it under
/// hdf5::lock(). One file at a time; close it before this dies.
class SparseImageDriver {
 public:
  explicit SparseImageDriver(SparseImage& image);

  /// Makes files opened with `access` live in the image.
  void use(const hdf5::Properties& access) const;

 private:
  SparseImage* image_;
  hdf5::Handle<H5FDunregister> driver_;
};

}  // namespace rota::checkpoint
