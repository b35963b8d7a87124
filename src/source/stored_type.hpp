#pragma once

// Elements as people's files hold them, numbers or not, and the fields of numbers and text that they become.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/source.hpp"

namespace rota::internal {

/// What a part of an element is.
enum class StoredKind : std::uint8_t {
  numbers,
  text_to_zero,   ///< bytes up to the first zero
  text_of_zeros,  ///< bytes without the zeros that fill up its place
  text_of_blanks,
  utf32,
  in_heap,       ///< elsewhere in the file, any number of elements
  text_in_heap,  ///< the same, of bytes
};

/// What stands in an element in place of what is in the heap: how many, and 12 bytes of where.
inline constexpr std::size_t kReferenceBytes = 16;

/// A part of an element that becomes a field: a member, or all of it.
struct StoredPart {
  std::string name = {};  ///< of the member, behind that of the field: ".x"; empty: all of the element
  StoredKind kind = StoredKind::numbers;
  DType dtype = DType::uint8;
  bool is_swapped = false;               ///< its bytes are in the other order
  std::vector<std::int64_t> shape = {};  ///< behind that of the elements
  std::size_t offset = 0;                ///< in the element
  std::size_t bytes = 0;

  /// Whether each has a length of its own.
  [[nodiscard]] bool is_long() const noexcept { return kind != StoredKind::numbers; }
  [[nodiscard]] bool is_text() const noexcept { return is_long() && kind != StoredKind::in_heap; }
  [[nodiscard]] bool is_elsewhere() const noexcept {
    return kind == StoredKind::in_heap || kind == StoredKind::text_in_heap;
  }

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, kind, dtype, is_swapped, shape, offset, bytes);
  }
  friend bool operator==(const StoredPart&, const StoredPart&) = default;
};

struct StoredType {
  std::size_t bytes = 0;  ///< of an element
  std::vector<StoredPart> parts;

  /// Whether it is numbers and nothing else.
  [[nodiscard]] bool is_numbers() const noexcept;
  /// Whether it is one text in a place of its own, and nothing else.
  [[nodiscard]] bool is_short_text() const noexcept;
  /// Whether both become the same field: texts do, however wide their places.
  [[nodiscard]] bool joins_with(const StoredType& other) const noexcept;
  /// Of numbers in native order, or in the other one, and more than one of them where there is a shape.
  static StoredType of(DType dtype, bool is_swapped = false, std::vector<std::int64_t> shape = {});
  /// Its parts as those of the member `name`, "" for all of it, at `offset` of a larger element, `shape`
  /// times. False where that cannot be.
  [[nodiscard]] bool add_to(StoredType& whole, std::string_view name, std::size_t offset,
                            const std::vector<std::int64_t>& shape) const;
  /// The field of elements as they lie in the file: numbers in any order, or bytes.
  [[nodiscard]] Field as_stored(std::string name, std::vector<std::int64_t> shape, bool ragged = false) const;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(bytes, parts);
  }
  friend bool operator==(const StoredType&, const StoredType&) = default;
};

/// How a source reads what of its fields its `read` does not give.
struct StoredReads {
  /// Fixed field f alone, of all samples, side by side; empty: `read` is as good.
  std::function<void(std::span<const SampleId>, std::size_t, std::span<std::byte>)> field = {};
  /// For each sample, what kReferenceBytes of field f say to be elsewhere, into its memory.
  std::function<void(std::span<const SampleId>, std::size_t, std::span<const std::byte>,
                     std::span<const std::span<std::byte>>)>
      heap = {};
};

/// `source`, whose field f holds elements of types[f], with fields of what these are: "NAME", or
/// "NAME.MEMBER" for each member. Text becomes bytes of UTF-8, ragged. The source itself where nothing is to
/// be done. Throws Error{unsupported}, headed by `task`, for more than one text in a sample.
std::shared_ptr<const Source> decode_stored(std::shared_ptr<const Source> source,
                                            const std::vector<StoredType>& types, std::string_view task,
                                            StoredReads reads = {});

}  // namespace rota::internal
