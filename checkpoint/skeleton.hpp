#pragma once

// The HDF5 part of a checkpoint without its data: groups, datasets that are allotted but not written, and
// attributes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "commit_page.hpp"
#include "contents.hpp"
#include "hdf5/hdf5.hpp"

namespace rota::checkpoint {

/// A file in memory of which only the pages that were written take room. HDF5 makes a skeleton in one: it
/// allots datasets of any size without touching them, and does no I/O of its own that could fail.
class SparseImage final : public hdf5::Medium {
 public:
  /// Zeros where nothing was written.
  void read(std::uint64_t at, std::span<std::byte> out, bool is_data) override;
  void write(std::uint64_t at, std::span<const std::byte> data) override;
  [[nodiscard]] std::uint64_t end() const noexcept override { return end_; }
  void set_end(std::uint64_t end) noexcept override { end_ = end; }

 private:
  std::map<std::uint64_t, std::vector<std::byte>> pages_;  // by number
  std::uint64_t end_ = 0;
};

/// Makes it under HDF5's lock, and sets where everything lies in `contents`, which says all else. Of `page`
/// only what the caller knows by now is used. Throws Error{io} where HDF5 fails.
[[nodiscard]] SparseImage make_skeleton(Contents& contents, const CommitPage& page);

}  // namespace rota::checkpoint
