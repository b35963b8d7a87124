#include "formats/hdf5/type.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <memory>
#include <string_view>

#include "values/owned.hpp"

namespace rota::internal {
namespace {

bool is_member(hid_t type, unsigned i, std::string_view name, signed char value) {
  const std::unique_ptr<char, FreeBy<H5free_memory>> found(H5Tget_member_name(type, i));
  signed char found_value = -1;
  return found != nullptr && name == found.get() && H5Tget_member_value(type, i, &found_value) >= 0 &&
         found_value == value;
}

// The enumeration FALSE, TRUE of one byte that h5py writes for numpy.bool_.
bool is_boolean(hid_t type) {
  return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
         is_member(type, 0, "FALSE", 0) && is_member(type, 1, "TRUE", 1);
}

bool is_native_order(hid_t type) {
  constexpr H5T_order_t kNative = std::endian::native == std::endian::little ? H5T_ORDER_LE : H5T_ORDER_BE;
  return H5Tget_size(type) == 1 || H5Tget_order(type) == kNative;
}

// No unused bits, which HDF5 allows and memory has none of.
bool is_whole(hid_t type) {
  return H5Tget_precision(type) == 8 * H5Tget_size(type) && H5Tget_offset(type) == 0;
}

std::optional<DType> integer_of(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  if (!std::has_single_bit(bytes) || bytes > 8) return std::nullopt;
  return internal::integer_type(bytes, H5Tget_sign(type) == H5T_SGN_2);
}

struct FloatFormat {
  DType dtype;
  std::size_t bytes;
  std::size_t exponent_bits;
  std::size_t mantissa_bits;
  std::size_t bias;
};
constexpr std::array<FloatFormat, 4> kFloats{{{DType::float16, 2, 5, 10, 15},
                                              {DType::bfloat16, 2, 8, 7, 127},
                                              {DType::float32, 4, 8, 23, 127},
                                              {DType::float64, 8, 11, 52, 1023}}};

std::optional<DType> float_of(hid_t type) {
  std::size_t sign = 0;
  std::size_t exponent = 0;
  std::size_t exponent_bits = 0;
  std::size_t mantissa = 0;
  std::size_t mantissa_bits = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) return {};
  for (const FloatFormat& format : kFloats) {
    if (H5Tget_size(type) == format.bytes && exponent_bits == format.exponent_bits &&
        mantissa_bits == format.mantissa_bits && H5Tget_ebias(type) == format.bias && mantissa == 0 &&
        exponent == mantissa_bits && sign == 8 * format.bytes - 1 && H5Tget_norm(type) == H5T_NORM_IMPLIED) {
      return format.dtype;
    }
  }
  return std::nullopt;
}

// By H5T_class_t, which begins with H5T_INTEGER = 0.
constexpr std::array<std::string_view, 11> kClassNames = {
    "integers",
    "floats",
    "times",
    "strings",
    "bit fields",
    "opaque",
    "compounds",
    "references",
    "an enumeration that is not FALSE, TRUE of one byte",
    "variable-length sequences",
    "arrays"};

std::string_view class_name(hid_t type) {
  const auto kind = static_cast<std::size_t>(H5Tget_class(type));
  return kind < kClassNames.size() ? kClassNames[kind] : "no numbers";
}

}  // namespace

bool is_numeric(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  return kind == H5T_INTEGER || kind == H5T_FLOAT || is_boolean(type);
}

std::optional<DType> dtype_of(hid_t type) {
  if (is_boolean(type)) return DType::boolean;
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return std::nullopt;
  if (!is_native_order(type) || !is_whole(type)) return std::nullopt;
  return kind == H5T_INTEGER ? integer_of(type) : float_of(type);
}

std::string describe(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return std::string(class_name(type));
  return fmt::format("{}{}{} of {} bytes", is_whole(type) ? "" : "padded ",
                     is_native_order(type)                ? ""
                     : H5Tget_order(type) == H5T_ORDER_BE ? "big-endian "
                                                          : "foreign-endian ",
                     class_name(type), H5Tget_size(type));
}

}  // namespace rota::internal
