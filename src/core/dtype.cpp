#include "rota/dtype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/bytes.hpp"
#include "core/failure.hpp"

namespace rota {
namespace {

// In the order of the enumeration, as are the sizes.
constexpr std::array<std::string_view, 13> kTypeNames{"boolean",  "int8",    "int16",  "int32",  "int64",
                                                      "uint8",    "uint16",  "uint32", "uint64", "float16",
                                                      "bfloat16", "float32", "float64"};
constexpr std::array<std::size_t, 13> kTypeSizes{1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
static_assert(static_cast<std::size_t>(DType::float64) + 1 == kTypeNames.size());

// By integers, so that it is exact where subnormals are flushed to zero, too.
float from_float16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffU;
  std::uint32_t wide = (magnitude << 13U) + (112U << 23U);
  if (magnitude >= 0x7c00) wide += 112U << 23U;  // infinity, NaN
  if (magnitude < 0x400) wide = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  return std::bit_cast<float>(wide | (bits & 0x8000U) << 16U);
}

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

template <typename Convert>
void convert(std::span<const std::byte> from, std::span<float> to, Convert convert_one) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = convert_one(internal::load<std::uint16_t>(from, i * sizeof(std::uint16_t)));
}

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kTypeSizes.size() ? kTypeSizes[i] : 0;
}

std::string_view to_string(DType dtype) noexcept {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kTypeNames.size() ? kTypeNames[i] : "unknown";
}

DType parse_dtype(std::string_view text) {
  const auto found = std::ranges::find(kTypeNames, text);
  if (found != kTypeNames.end()) return static_cast<DType>(found - kTypeNames.begin());
  throw internal::failure(ErrorCode::invalid_argument, "read element type \"{}\": there is no such type",
                          text);
}

void to_floats(DType dtype, std::span<const std::byte> from, std::span<float> to) {
  if (dtype != DType::float16 && dtype != DType::bfloat16 && dtype != DType::float32) {
    throw internal::failure(ErrorCode::mismatch,
                            "copy elements to floats: they are {}; only float16, bfloat16 and float32 can be",
                            to_string(dtype));
  }
  if (from.size() != to.size() * size_of(dtype)) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "copy {} bytes of {} to {} floats: give room for as many as there are elements",
                            from.size(), to_string(dtype), to.size());
  }
  if (dtype == DType::float16) return convert(from, to, from_float16);
  if (dtype == DType::bfloat16) return convert(from, to, from_bfloat16);
  if (!to.empty()) std::memcpy(to.data(), from.data(), from.size());
}

namespace internal {

void refuse_type(std::string_view tried, DType dtype, DType wanted) {
  const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
  throw failure(ErrorCode::mismatch, "{} as {}: its elements are {}; ask for {}", tried, to_string(wanted),
                to_string(dtype), is_half ? "uint16, their bits, of which to_floats makes floats" : "these");
}

void refuse_view(std::string_view name, DType dtype, DType wanted) {
  refuse_type(fmt::format("view field \"{}\"", name), dtype, wanted);
}

void refuse_field(std::size_t f, std::size_t fields) {
  throw failure(ErrorCode::out_of_range, "view field {}: there are {}, numbered from 0 on", f, fields);
}

}  // namespace internal

}  // namespace rota
