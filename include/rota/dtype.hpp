#pragma once

// Element types of tensors, as they lie in memory and in files. Next: shard_plan.hpp.

#include <cstddef>
#include <cstdint>
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

/// Bytes of one element: 1, 2, 4 or 8.
std::size_t size_of(DType dtype) noexcept;

/// The name as written in the enumeration, "int64" and so on, and back.
/// `parse_dtype` throws Error{invalid_argument} for an unknown name.
std::string_view to_string(DType dtype) noexcept;
DType parse_dtype(std::string_view text);

namespace internal {
template <typename T>
consteval DType dtype_of() {
  static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, std::byte>, "an arithmetic type, or std::byte");
  if constexpr (std::is_same_v<T, std::byte>) return DType::uint8;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "float or double");
    return sizeof(T) == 4 ? DType::float32 : DType::float64;
  }
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1:
      return is_signed ? DType::int8 : DType::uint8;
    case 2:
      return is_signed ? DType::int16 : DType::uint16;
    case 4:
      return is_signed ? DType::int32 : DType::uint32;
    default:
      return is_signed ? DType::int64 : DType::uint64;
  }
}
}  // namespace internal

/// The DType of a C++ arithmetic type; std::byte counts as uint8.
template <typename T>
inline constexpr DType kDTypeOf = internal::dtype_of<std::remove_cv_t<T>>();

}  // namespace rota
