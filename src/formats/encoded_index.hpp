#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/records.hpp"

namespace rota::internal {

/// Where the records of a file lie, as bytes that a catalog can keep, with how the file is packed.
[[nodiscard]] std::vector<std::byte> encode_index(const RecordIndex& index, const FileEncoding& as);

/// A packed index, read where it lies.
struct EncodedIndex {
  /// Of a format with so many fields. Throws Error{corrupt} for bytes that are none.
  EncodedIndex(std::span<const std::byte> bytes, std::size_t fields);

  std::int64_t samples = 0;
  FileEncoding encoding;
  std::span<const ByteRange> ranges;
  NameTable keys;
};

}  // namespace rota::internal
