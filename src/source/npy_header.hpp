#pragma once

// What stands before the numbers in a NPY file (NumPy, NEP 1: a simple file format for NumPy arrays).

#include <cstdint>
#include <vector>

#include "rota/dtype.hpp"
#include "source/records.hpp"

namespace rota {

/// One array.
struct NpyHeader {
  DType dtype = DType::uint8;
  bool is_fortran = false;  ///< stored by columns
  std::vector<std::int64_t> shape;
  std::uint64_t data_at = 0;  ///< its first byte, counted from the beginning of the header

  /// Of all elements.
  [[nodiscard]] std::uint64_t data_bytes() const noexcept;
};

/// Reads the header at byte `at` of `file`, whose array must end by byte `end`. Throws Error{corrupt} naming
/// file and offset for what is no NPY header or claims more than there is, Error{unsupported} for types that
/// rota does not know: big-endian, structures, strings, and Python objects, which only a pickle can hold.
NpyHeader read_npy_header(const RecordFile& file, std::uint64_t at, std::uint64_t end);

}  // namespace rota
