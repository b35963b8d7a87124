#pragma once

// What stands before the numbers in an NPY file (NumPy, NEP 1: a simple file format for NumPy arrays), and
// zip files, as NPZ has them: what they hold, and its bytes.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "files/dataset_file.hpp"
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

/// A file in a zip file.
struct ZipMember {
  std::string name;
  std::uint64_t offset = 0;  // of its first stored byte
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  // decompressed
  std::uint32_t crc = 0;    // of them
  bool is_deflated = false;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, offset, stored_bytes, bytes, crc, is_deflated);
  }
};

/// All within the file. Throws Error{corrupt} naming file and offset, Error{unsupported} for encrypted ones
/// and methods other than stored and deflated.
std::vector<ZipMember> list_zip(const DatasetFile& file);

/// The decompressed bytes of a member, from its first one on, and their checksum. *One thread.*
class ZipReader {
 public:
  /// Both must outlive it.
  ZipReader(const DatasetFile& file, const ZipMember& member);
  ~ZipReader() { ::inflateEnd(&z_); }
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// Fills `to` with those that follow. Throws as DatasetFile::read does, Error{corrupt} where they are not
  /// what deflating leaves.
  void next(std::span<std::byte> to);
  /// Throws Error{corrupt} unless all were read, and their checksum is right.
  void require_end() const;

 private:
  [[nodiscard]] Error damaged() const;
  void inflate_into(std::span<std::byte> to);
  void refill(std::size_t wanted);

  const DatasetFile& file_;
  const ZipMember& member_;
  z_stream z_{};                   // of a deflated one
  std::vector<std::byte> window_;  // stored bytes; z_ has taken some of them
  std::uint64_t stored_ = 0;       // bytes that were in it so far
  std::uint64_t done_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace rota::internal
