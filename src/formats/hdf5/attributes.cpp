// Attributes that NetCDF-4 and h5py give to datasets: HDF5's dimension scales, and those of the NetCDF Users'
// Guide, "Attribute Conventions" (CF Conventions, 8.1).

#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "formats/hdf5/file.hpp"

namespace rota::internal {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool has(const hdf5::Dataset& dataset, const char* name) {
  return hdf5::check(H5Aexists(dataset.get(), name), name) > 0;
}

// The numbers of an attribute; none where it is not there. What rota cannot undo makes the scale unknown.
std::vector<long double> ask_numbers(const hdf5::Dataset& dataset, const char* name, Scaling& scaling,
                                     bool& are_wide) {
  if (!has(dataset, name)) return {};
  const hdf5::Attribute attribute(H5Aopen(dataset.get(), name, H5P_DEFAULT), name);
  const hdf5::Datatype type(H5Aget_type(attribute.get()), name);
  const hdf5::Dataspace space(H5Aget_space(attribute.get()), name);
  constexpr hssize_t kMostValues = 1000;
  const hssize_t count = hdf5::check(H5Sget_simple_extent_npoints(space.get()), name);
  const H5T_class_t kind = H5Tget_class(type.get());
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || count == 0 || count > kMostValues) {
    scaling.scale = kUnknown;
    return {};
  }
  are_wide = H5Tget_size(type.get()) >= sizeof(double);
  std::vector<long double> numbers(static_cast<std::size_t>(count));
  hdf5::check(H5Aread(attribute.get(), H5T_NATIVE_LDOUBLE, numbers.data()), name);
  return numbers;
}

// The text of an attribute, up to a zero; empty for what is none, or long.
std::string ask_text(const hdf5::Attribute& attribute) {
  constexpr std::size_t kMostBytes = 64;
  const hdf5::Datatype type(H5Aget_type(attribute.get()), "ask for the type of an attribute");
  const hdf5::Dataspace space(H5Aget_space(attribute.get()), "ask for the extent of an attribute");
  std::array<char, kMostBytes + 1> text{};
  char* long_text = nullptr;
  const bool is_variable = H5Tis_variable_str(type.get()) > 0;
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1 ||
      (!is_variable && H5Tget_size(type.get()) > kMostBytes) ||
      H5Aread(attribute.get(), type.get(), is_variable ? static_cast<void*>(&long_text) : text.data()) < 0)
    return {};
  std::string said = is_variable ? (long_text == nullptr ? "" : long_text) : text.data();
  if (long_text != nullptr) H5free_memory(long_text);
  return said;
}

constexpr bool is_integer(DType dtype) { return dtype >= DType::int8 && dtype <= DType::uint64; }
constexpr bool is_signed(DType dtype) { return dtype <= DType::int64; }

}  // namespace

bool is_dimension_scale(const hdf5::Dataset& dataset) {
  if (!has(dataset, "CLASS")) return false;
  return ask_text({H5Aopen(dataset.get(), "CLASS", H5P_DEFAULT), "open the attribute CLASS"}) ==
         "DIMENSION_SCALE";
}

bool is_by_columns(const Hdf5Subject& subject, const std::string& name) {
  const std::string group = name.substr(0, std::max<std::size_t>(name.rfind('/'), 1));
  const char* const attribute = "encoding-type";
  if (H5Aexists_by_name(subject.file.get(), group.c_str(), attribute, H5P_DEFAULT) <= 0) return false;
  return ask_text({H5Aopen_by_name(subject.file.get(), group.c_str(), attribute, H5P_DEFAULT, H5P_DEFAULT),
                   attribute}) == "csc_matrix";
}

void ask_scaling(const hdf5::Dataset& dataset, Hdf5Field& field) {
  const DType stored = field.field.dtype;
  Scaling& found = field.scaling;
  field.meant = stored;
  bool is_wide = size_of(stored) > (stored == DType::float32 ? 4 : 2);  // float32 has 24 bits
  bool is_scaled = false;
  for (const auto& [name, number] :
       {std::pair("scale_factor", &found.scale), {"add_offset", &found.offset}}) {
    bool is_number_wide = false;
    const auto numbers = ask_numbers(dataset, name, found, is_number_wide);
    if (!numbers.empty()) *number = numbers.size() == 1 ? static_cast<double>(numbers[0]) : kUnknown;
    is_scaled = is_scaled || !numbers.empty();
    is_wide = is_wide || is_number_wide;
  }
  for (const char* name : {"_FillValue", "missing_value"}) {
    bool is_number_wide = false;
    for (const long double value : ask_numbers(dataset, name, found, is_number_wide)) {
      if (!std::isnan(value) && std::ranges::count(found.missing, value) == 0) found.missing.push_back(value);
    }
  }
  const bool is_plain = field.values.type.parts[0].shape.empty();
  const bool is_float = stored == DType::float32 || stored == DType::float64;
  const bool is_known = (is_plain && (is_float || is_integer(stored))) || found == Scaling();
  if (!is_known || std::isnan(found.offset)) found.scale = kUnknown;
  if (is_scaled) field.meant = is_wide ? DType::float64 : DType::float32;
  if (!is_integer(stored) || !has(dataset, "_Unsigned")) return;
  std::string said =
      ask_text({H5Aopen(dataset.get(), "_Unsigned", H5P_DEFAULT), "open the attribute _Unsigned"});
  if (said == "True" || said == "False") said[0] = static_cast<char>(std::tolower(said[0]));
  if (!is_plain || (said != "true" && said != "false")) found.scale = kUnknown;
  field.is_of_other_sign = is_plain && said == (is_signed(stored) ? "true" : "false");
}

void change_sign(Hdf5Field& field) {
  constexpr int kFromSigned = static_cast<int>(DType::uint8) - static_cast<int>(DType::int8);
  const DType stored = field.field.dtype;
  const bool was_signed = is_signed(stored);
  const auto dtype = static_cast<DType>(static_cast<int>(stored) + (was_signed ? kFromSigned : -kFromSigned));
  const long double all = std::ldexp(1.0L, static_cast<int>(8 * size_of(stored)));
  for (long double& value : field.scaling.missing) {
    if (was_signed && value < 0) value += all;
    if (!was_signed && value >= all / 2) value -= all;
  }
  if (field.meant == stored) field.meant = dtype;
  field.field.dtype = field.values.dtype = field.values.type.parts[0].dtype = dtype;
  field.is_of_other_sign = false;
}

}  // namespace rota::internal
