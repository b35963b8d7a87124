#pragma once

// Row digests of all tensors, of bytes of the file as they come by.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contents.hpp"
#include "digest.hpp"
#include "files/file.hpp"

namespace rota::checkpoint {

/// This rank's part of the row digest of each tensor: of the rows that begin in what it is given, a run of
/// bytes of the file, piece by piece. *One thread.*
class RowSums {
 public:
  /// `contents` must outlive it.
  explicit RowSums(const Contents& contents);

  /// The next bytes, which begin where those before ended.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// There are no more. Reads from `file` what is left of a row that began.
  [[nodiscard]] std::vector<std::uint64_t> finish(const internal::File& file);

 private:
  [[nodiscard]] std::uint64_t add_rows(std::size_t tensor, std::uint64_t at,
                                       std::span<const std::byte> bytes);

  const Contents* contents_;
  std::vector<std::size_t> in_order_;  // tensors that have bytes, by offset
  std::size_t next_ = 0;               // the first that does not end before what comes next
  DigestStream open_row_;
  std::uint64_t open_rest_ = 0;  // bytes of it that are missing
  std::uint64_t next_offset_ = 0;
  std::vector<std::uint64_t> sums_;
};

}  // namespace rota::checkpoint
