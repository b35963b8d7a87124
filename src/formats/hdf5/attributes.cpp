// Attributes that NetCDF-4 and h5py give to datasets: HDF5's dimension scales, and those of the NetCDF Users'
// Guide, "Attribute Conventions" (CF Conventions, 8.1).

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

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

}  // namespace

bool is_dimension_scale(const hdf5::Dataset& dataset) {
  constexpr std::string_view kClass = "DIMENSION_SCALE";
  std::array<char, kClass.size() + 1> text{};
  if (!has(dataset, "CLASS")) return false;
  const hdf5::Attribute attribute(H5Aopen(dataset.get(), "CLASS", H5P_DEFAULT), "open the attribute CLASS");
  const hdf5::Datatype type(H5Aget_type(attribute.get()), "ask for the type of CLASS");
  if (H5Tis_variable_str(type.get()) != 0 || H5Tget_size(type.get()) > text.size()) return false;
  if (H5Aread(attribute.get(), type.get(), text.data()) < 0) return false;
  return std::string_view(text.data(), kClass.size()) == kClass;
}

bool is_by_columns(const Hdf5Subject& subject, const std::string& name) {
  const std::string group = name.substr(0, std::max<std::size_t>(name.rfind('/'), 1));
  const char* const attribute_name = "encoding-type";
  if (H5Aexists_by_name(subject.file.get(), group.c_str(), attribute_name, H5P_DEFAULT) <= 0) return false;
  const hdf5::Attribute attribute(
      H5Aopen_by_name(subject.file.get(), group.c_str(), attribute_name, H5P_DEFAULT, H5P_DEFAULT),
      attribute_name);
  const hdf5::Datatype type(H5Aget_type(attribute.get()), attribute_name);
  if (H5Tget_class(type.get()) != H5T_STRING) return false;
  std::array<char, 64> text{};
  char* long_text = nullptr;
  const bool is_variable = H5Tis_variable_str(type.get()) > 0;
  if (!is_variable && H5Tget_size(type.get()) >= text.size()) return false;
  if (H5Aread(attribute.get(), type.get(), is_variable ? static_cast<void*>(&long_text) : text.data()) < 0)
    return false;
  const std::string said = is_variable ? (long_text == nullptr ? "" : long_text) : text.data();
  if (long_text != nullptr) H5free_memory(long_text);
  return said == "csc_matrix";
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
  const bool is_integer = stored >= DType::int8 && stored <= DType::uint64;
  const bool is_known = (is_plain && (is_float || is_integer)) || found == Scaling();
  if (!is_known || std::isnan(found.offset) || has(dataset, "_Unsigned")) found.scale = kUnknown;
  if (is_scaled) field.meant = is_wide ? DType::float64 : DType::float32;
}

}  // namespace rota::internal
