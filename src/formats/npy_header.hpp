#pragma once

// What stands before the numbers in a NPY file (NumPy, NEP 1: a simple file format for NumPy arrays).

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "formats/records.hpp"
#include "source/stored_type.hpp"

namespace rota::internal {

/// One array.
struct NpyHeader {
  StoredType type;
  bool is_fortran = false;  ///< stored by columns
  std::vector<std::int64_t> shape;
  std::uint64_t data_at = 0;  ///< its first byte, counted from the beginning of the header

  /// Of all elements.
  [[nodiscard]] std::uint64_t data_bytes() const noexcept;
  /// Whether rows are scattered over the data.
  [[nodiscard]] bool has_columns() const noexcept { return is_fortran && shape.size() > 1; }

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(type, is_fortran, shape, data_at);
  }
};

/// Fills its argument with the bytes that follow those of the call before.
using NextBytes = std::function<void(std::span<std::byte>)>;

/// Reads a header from `next`; array and header have `bytes` together, and are at byte `at` of `file`, for
/// messages. Throws what `next` does, Error{corrupt} naming file and offset for what is no NPY header or
/// claims more than there is, Error{unsupported} for types that rota does not know: floats of more than 8
/// bytes, and Python objects, which only a pickle can hold.
NpyHeader read_npy_header(const DatasetFile& file, std::uint64_t at, std::uint64_t bytes,
                          const NextBytes& next);

/// `float32 [3, 2]`.
std::string describe(const NpyHeader& header);
/// Whether they have the same type, and the same shape behind the leading extent.
bool are_alike(const NpyHeader& a, const NpyHeader& b);
/// The shape behind the leading extent.
std::vector<std::int64_t> row_shape(const NpyHeader& header);

/// Elements stored by columns, `from`, into C's order.
void to_c_order(const NpyHeader& header, std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace rota::internal
