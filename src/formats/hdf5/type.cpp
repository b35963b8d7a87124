#include "formats/hdf5/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "core/owned.hpp"

namespace rota::internal {
namespace {

std::string member_name(hid_t type, unsigned i) {
  const std::unique_ptr<char, FreeBy<H5free_memory>> name(H5Tget_member_name(type, i));
  return name == nullptr ? std::string() : std::string(name.get());
}

bool is_member(hid_t type, unsigned i, std::string_view name, signed char value) {
  signed char found_value = -1;
  return member_name(type, i) == name && H5Tget_member_value(type, i, &found_value) >= 0 &&
         found_value == value;
}

// The enumeration FALSE, TRUE of one byte that h5py writes for numpy.bool_.
bool is_boolean(hid_t type) {
  return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
         is_member(type, 0, "FALSE", 0) && is_member(type, 1, "TRUE", 1);
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

// As h5py and others write complex numbers: two floats, the real one first.
std::optional<StoredType> complex_of(hid_t type, const std::string& what) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"r", "i"}, {"re", "im"}, {"real", "imag"}};
  if (H5Tget_nmembers(type) != 2) return {};
  const bool is_named = std::ranges::any_of(kNames, [&](const auto& names) {
    return member_name(type, 0) == names.first && member_name(type, 1) == names.second;
  });
  const hdf5::Datatype real(H5Tget_member_type(type, 0), what);
  const hdf5::Datatype imaginary(H5Tget_member_type(type, 1), what);
  auto part = stored_type(real.get(), what);
  const bool is_complex = is_named && H5Tget_class(real.get()) == H5T_FLOAT && part &&
                          part == stored_type(imaginary.get(), what) &&
                          H5Tget_member_offset(type, 1) == part->bytes &&
                          H5Tget_size(type) == 2 * part->bytes;
  if (!is_complex) return {};
  return StoredType::of(part->parts[0].dtype, part->parts[0].is_swapped, {2});
}

// Members take other places in a file than in memory, where HDF5 keeps pointers for what lies elsewhere.
std::optional<StoredType> compound_of(hid_t type, const std::string& what) {
  std::map<std::size_t, unsigned> members;  // by offset
  const auto count = static_cast<unsigned>(hdf5::check(H5Tget_nmembers(type), what));
  for (unsigned i = 0; i < count; ++i) members.emplace(H5Tget_member_offset(type, i), i);
  StoredType whole;
  std::size_t grown = 0;
  for (const auto& [offset, i] : members) {
    const hdf5::Datatype member(H5Tget_member_type(type, i), what);
    const auto stored = stored_type(member.get(), what);
    if (!stored || !stored->add_to(whole, member_name(type, i), offset + grown, {})) return {};
    grown += stored->bytes - H5Tget_size(member.get());
  }
  whole.bytes = H5Tget_size(type) + grown;
  const bool is_inside = std::ranges::all_of(
      whole.parts, [&](const StoredPart& part) { return part.offset + part.bytes <= whole.bytes; });
  return is_inside && !whole.parts.empty() ? std::optional(std::move(whole)) : std::nullopt;
}

std::optional<StoredType> array_of(hid_t type, const std::string& what) {
  const hdf5::Datatype element(H5Tget_super(type), what);
  std::vector<hsize_t> extents(static_cast<std::size_t>(hdf5::check(H5Tget_array_ndims(type), what)));
  hdf5::check(H5Tget_array_dims2(type, extents.data()), what);
  const auto stored = stored_type(element.get(), what);
  StoredType whole{.bytes = H5Tget_size(type), .parts = {}};
  if (!stored || !stored->add_to(whole, "", 0, {extents.begin(), extents.end()})) return {};
  return whole;
}

std::optional<StoredType> sequence_of(hid_t type, const std::string& what) {
  StoredPart part{.kind = StoredKind::text_in_heap, .bytes = kReferenceBytes};
  if (H5Tget_class(type) == H5T_VLEN) {
    const hdf5::Datatype element(H5Tget_super(type), what);
    const auto stored = stored_type(element.get(), what);
    if (!stored || !stored->is_numbers() || !stored->parts[0].shape.empty()) return {};
    part.kind = StoredKind::in_heap;
    part.dtype = stored->parts[0].dtype;
    part.is_swapped = stored->parts[0].is_swapped;
  }
  return StoredType{.bytes = kReferenceBytes, .parts = {part}};
}

std::optional<StoredType> text_of(hid_t type) {
  const H5T_str_t padding = H5Tget_strpad(type);
  const StoredKind kind = padding == H5T_STR_SPACEPAD  ? StoredKind::text_of_blanks
                          : padding == H5T_STR_NULLPAD ? StoredKind::text_of_zeros
                                                       : StoredKind::text_to_zero;
  return StoredType{.bytes = H5Tget_size(type), .parts = {{.kind = kind, .bytes = H5Tget_size(type)}}};
}

// By H5T_class_t, which begins with H5T_INTEGER = 0.
constexpr std::array<std::string_view, 11> kClassNames = {
    "integers",  "floats",     "times",        "text",      "bit fields", "opaque",
    "compounds", "references", "enumerations", "sequences", "arrays"};

}  // namespace

std::optional<StoredType> stored_type(hid_t type, const std::string& what) {
  if (is_boolean(type)) return StoredType::of(DType::boolean);
  const std::size_t bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_BITFIELD:
    case H5T_FLOAT: {
      const H5T_order_t order = H5Tget_order(type);
      if (!is_whole(type) || (bytes > 1 && order != H5T_ORDER_LE && order != H5T_ORDER_BE)) return {};
      const auto dtype = H5Tget_class(type) == H5T_FLOAT ? float_of(type) : integer_of(type);
      const bool is_swapped = bytes > 1 && order == H5T_ORDER_BE;
      return dtype ? std::optional(StoredType::of(*dtype, is_swapped)) : std::nullopt;
    }
    case H5T_ENUM: {
      const hdf5::Datatype base(H5Tget_super(type), what);
      return stored_type(base.get(), what);
    }
    case H5T_TIME:  // of which HDF5 says no more
    case H5T_OPAQUE:
      return StoredType::of(DType::uint8, false, {static_cast<std::int64_t>(bytes)});
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0 ? sequence_of(type, what) : text_of(type);
    case H5T_VLEN:
      return sequence_of(type, what);
    case H5T_ARRAY:
      return array_of(type, what);
    case H5T_COMPOUND: {
      auto complex = complex_of(type, what);
      return complex ? complex : compound_of(type, what);
    }
    default:
      return std::nullopt;
  }
}

std::string describe(hid_t type) {
  const auto kind = static_cast<std::size_t>(H5Tget_class(type));
  const std::string_view name = kind < kClassNames.size() ? kClassNames[kind] : "no numbers";
  for (int i = 0; H5Tget_class(type) == H5T_COMPOUND && i < H5Tget_nmembers(type); ++i) {
    const hdf5::Datatype member(H5Tget_member_type(type, static_cast<unsigned>(i)), "describe a type");
    if (stored_type(member.get(), "describe a type")) continue;
    return fmt::format("{} whose \"{}\" is of {}", name, member_name(type, static_cast<unsigned>(i)),
                       describe(member.get()));
  }
  if (H5Tget_class(type) != H5T_INTEGER && H5Tget_class(type) != H5T_FLOAT) return std::string(name);
  return fmt::format("{}{} of {} bytes", is_whole(type) ? "" : "padded ", name, H5Tget_size(type));
}

}  // namespace rota::internal
