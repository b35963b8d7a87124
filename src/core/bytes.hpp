#pragma once

// Values as bytes in the order of files and messages, one at a place or one after the other.

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "rota/dtype.hpp"

namespace rota::internal {

static_assert(std::endian::native == std::endian::little,
              "values are written as they lie in memory, and files are little-endian");

/// The T at byte `at` of `bytes`.
template <typename T>
[[nodiscard]] T load(std::span<const std::byte> bytes, std::size_t at = 0) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Writes `value` at byte `at` of `bytes`.
template <typename T>
void store(std::span<std::byte> bytes, std::size_t at, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// The bits of a float16 or bfloat16.
template <DType dtype>
struct Half {
  static constexpr DType kType = dtype;
};

/// The C++ type of each DType, in their order.
using CppTypes =
    std::tuple<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
               std::uint32_t, std::uint64_t, Half<DType::float16>, Half<DType::bfloat16>, float, double>;

/// Calls `work` with a value of the C++ type of `dtype`. Returns what it does; nothing for what is no type.
template <typename Work, std::size_t i = 0>
std::invoke_result_t<Work, bool> with_type(DType dtype, const Work& work) {
  if constexpr (i == std::tuple_size_v<CppTypes>) {
    return {};
  } else {
    if (static_cast<std::size_t>(dtype) == i) return work(std::tuple_element_t<i, CppTypes>());
    return with_type<Work, i + 1>(dtype, work);
  }
}

/// Puts values one after the other.
class ByteWriter {
 public:
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  template <typename T>
  void add(T value) {
    add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void add_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  /// Its length as u32, then its bytes.
  void add_string(std::string_view text) {
    add(static_cast<std::uint32_t>(text.size()));
    add_bytes(std::as_bytes(std::span(text)));
  }
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what ByteWriter wrote, or what claims to be that: throws Error{corrupt} headed by `what` where it
/// ends early.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <typename T>
  [[nodiscard]] T next() {
    return load<T>(next_bytes(sizeof(T)));
  }
  [[nodiscard]] std::span<const std::byte> next_bytes(std::size_t count) {
    if (count > bytes_.size()) fail("it ends early");
    const auto found = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return found;
  }
  [[nodiscard]] std::string next_string() {
    const auto bytes = next_bytes(next<std::uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return bytes_; }
  [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }

  [[noreturn]] void fail(std::string_view why) const {
    throw failure(ErrorCode::corrupt, "{}: {}", what_, why);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string what_;
};

}  // namespace rota::internal
