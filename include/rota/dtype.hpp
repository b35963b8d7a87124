#pragma once

// Element types of tensors, in memory and in files. Next: source.hpp.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace rota {

/// The type of a tensor's elements, in native byte order. A boolean is one byte, 0 or 1.
enum class DType : std::uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
};

/// Bytes of one element: 1, 2, 4 or 8; 0 for a value that is no type.
std::size_t size_of(DType dtype) noexcept;

/// The name as in the enumeration, such as "int64"; "unknown" for a value that is no type. `parse_dtype` does
/// the reverse, and throws Error{invalid_argument} for an unknown name.
std::string_view to_string(DType dtype) noexcept;
DType parse_dtype(std::string_view text);

/// Converts float16, bfloat16 or float32 elements to floats; `from` need not be aligned. Exact: subnormals,
/// infinities and the bits of a NaN stay. Any thread. Throws Error{mismatch} for another type,
/// Error{invalid_argument} where `from` and `to` differ in size.
void to_floats(DType dtype, std::span<const std::byte> from, std::span<float> to);

namespace internal {
// Of 1, 2, 4 or 8 bytes: they follow each other.
constexpr DType integer_type(std::size_t bytes, bool is_signed) noexcept {
  const auto first = static_cast<int>(is_signed ? DType::int8 : DType::uint8);
  return static_cast<DType>(first + std::countr_zero(bytes));
}

template <typename T>
consteval DType dtype_of() {
  static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, std::byte>, "an arithmetic type, or std::byte");
  if constexpr (std::is_same_v<T, std::byte>) return DType::uint8;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "float or double");
    return sizeof(T) == 4 ? DType::float32 : DType::float64;
  }
  return integer_type(sizeof(T), std::is_signed_v<T>);
}
}  // namespace internal

/// The DType of a C++ arithmetic type; std::byte counts as uint8.
template <typename T>
inline constexpr DType kDTypeOf = internal::dtype_of<std::remove_cv_t<T>>();

namespace internal {

/// Whether elements of `dtype` may be viewed as `wanted`: the same type, or uint16 for the bits of a float.
constexpr bool is_viewable(DType dtype, DType wanted) {
  if (dtype == wanted) return true;
  return wanted == DType::uint16 && (dtype == DType::float16 || dtype == DType::bfloat16);
}

/// Whether they may be viewed as T's. std::byte always fits.
template <typename T>
constexpr bool is_viewable_as(DType dtype) {
  return std::is_same_v<std::remove_cv_t<T>, std::byte> || is_viewable(dtype, kDTypeOf<T>);
}

/// Throws Error{mismatch}: `tried` asked for elements of type `dtype` as `wanted`.
[[noreturn]] void refuse_type(std::string_view tried, DType dtype, DType wanted);
/// The same where the field called `name` was to be viewed.
[[noreturn]] void refuse_view(std::string_view name, DType dtype, DType wanted);
/// Throws Error{out_of_range}: field `f` of `fields` fields.
[[noreturn]] void refuse_field(std::size_t f, std::size_t fields);

}  // namespace internal

}  // namespace rota
