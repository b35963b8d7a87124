// Attributes that NetCDF-4 and h5py give to datasets: HDF5's dimension scales, and those of the NetCDF Users'
// Guide, "Attribute Conventions" (CF Conventions, 8.1).

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "formats/hdf5/file.hpp"

namespace rota::internal {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Numbers {
  std::vector<double> values = {};  // of what is no number, one that is unknown; empty: there is none
  bool are_wide = false;
};
Numbers ask_numbers(const hdf5::Dataset& dataset, const char* name) {
  if (H5Aexists(dataset.get(), name) <= 0) return {};
  const hdf5::Attribute attribute(H5Aopen(dataset.get(), name, H5P_DEFAULT), name);
  const hdf5::Datatype type(H5Aget_type(attribute.get()), name);
  const hdf5::Dataspace space(H5Aget_space(attribute.get()), name);
  constexpr hssize_t kMostValues = 1000;
  const hssize_t count = hdf5::check(H5Sget_simple_extent_npoints(space.get()), name);
  const H5T_class_t kind = H5Tget_class(type.get());
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || count > kMostValues) return {{kUnknown}};
  Numbers found{std::vector<double>(static_cast<std::size_t>(count)),
                H5Tget_size(type.get()) >= sizeof(double)};
  if (count > 0) hdf5::check(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, found.values.data()), name);
  return found;
}

}  // namespace

bool is_dimension_scale(const hdf5::Dataset& dataset) {
  constexpr std::string_view kClass = "DIMENSION_SCALE";
  std::array<char, kClass.size() + 1> text{};
  if (H5Aexists(dataset.get(), "CLASS") <= 0) return false;
  const hdf5::Attribute attribute(H5Aopen(dataset.get(), "CLASS", H5P_DEFAULT), "open the attribute CLASS");
  const hdf5::Datatype type(H5Aget_type(attribute.get()), "ask for the type of CLASS");
  if (H5Tis_variable_str(type.get()) != 0 || H5Tget_size(type.get()) > text.size()) return false;
  if (H5Aread(attribute.get(), type.get(), text.data()) < 0) return false;
  return std::string_view(text.data(), kClass.size()) == kClass;
}

void ask_scaling(const hdf5::Dataset& dataset, Hdf5Field& field) {
  const DType stored = field.field.dtype;
  field.meant = stored;
  const bool is_float = stored == DType::float32 || stored == DType::float64;
  if (!is_float && (stored < DType::int8 || stored > DType::uint64)) return;
  const Numbers scale = ask_numbers(dataset, "scale_factor");
  const Numbers offset = ask_numbers(dataset, "add_offset");
  for (const char* name : {"_FillValue", "missing_value"}) {
    for (const double value : ask_numbers(dataset, name).values) {
      if (!std::isnan(value) && std::ranges::count(field.scaling.missing, value) == 0)
        field.scaling.missing.push_back(value);
    }
  }
  if (!scale.values.empty()) field.scaling.scale = scale.values[0];
  if (!offset.values.empty()) field.scaling.offset = offset.values[0];
  if (H5Aexists(dataset.get(), "_Unsigned") > 0 || std::isnan(field.scaling.offset))
    field.scaling.scale = kUnknown;
  if (scale.values.empty() && offset.values.empty()) return;
  const bool is_wide = scale.are_wide || offset.are_wide || stored == DType::float64;
  field.meant = is_wide ? DType::float64 : DType::float32;
}

}  // namespace rota::internal
