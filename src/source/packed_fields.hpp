#pragma once

// What sequences of packed documents have: which fields of the documents, and what fills them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rota/packing.hpp"
#include "rota/source.hpp"
#include "source/document_stream.hpp"

namespace rota::internal {

/// The fields that packing adds, behind the tokens.
inline constexpr const char* kSegmentField = "segment_ids";
inline constexpr const char* kPositionField = "position_ids";

/// An element as it lies in memory.
class Element {
 public:
  Element(std::int64_t value, DType dtype) noexcept;

  void fill(std::span<std::byte> to) const noexcept;

 private:
  std::size_t bytes_;
  std::array<std::byte, 8> element_{};
};

/// One field of the documents that is packed, such as the tokens or their labels.
struct PackedField {
  std::size_t index = 0;  ///< of the documents' fields
  Field field;            ///< of a sequence
  std::optional<Element> bos;
  std::optional<Element> eos;
  Element pad;

  /// Fills bos and eos of a piece into `to`, where it begins, and adds to `wanted` what is to be read there.
  void put(const DocumentPiece& piece, std::byte* to, std::vector<SampleRows>& wanted) const;
};

/// The tokens, and what is packed with them. Throws as pack() does.
std::vector<PackedField> packed_fields(const std::vector<Field>& documents, const PackOptions& options);

}  // namespace rota::internal
