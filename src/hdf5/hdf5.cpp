#include "hdf5/hdf5.hpp"

#include <fmt/format.h>

#include <array>

#include "rota/error.hpp"

namespace rota::hdf5 {
namespace {

herr_t first_entry(unsigned /*n*/, const H5E_error2_t* entry, void* text) {
  *static_cast<std::string*>(text) = entry->desc != nullptr ? entry->desc : "";
  return 1;  // stop: the walk goes upward from the deepest entry
}

std::recursive_mutex& process_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// In the order of DType. Booleans and float16 have types of their own.
hid_t standard_type(DType dtype) {
  const std::array types{H5T_STD_U8LE,  H5T_STD_I8LE,   H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE,
                         H5T_STD_U8LE,  H5T_STD_U16LE,  H5T_STD_U32LE, H5T_STD_U64LE, H5T_IEEE_F32LE,
                         H5T_STD_U16LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
  return types.at(static_cast<std::size_t>(dtype));
}

Datatype boolean_type() {
  Datatype type(H5Tenum_create(H5T_STD_I8LE), "make HDF5's boolean type");
  signed char value = 0;
  check(H5Tenum_insert(type.get(), "FALSE", &value), "make HDF5's boolean type");
  value = 1;
  check(H5Tenum_insert(type.get(), "TRUE", &value), "make HDF5's boolean type");
  return type;
}

// IEEE binary16, which HDF5 1.10 has no name for.
Datatype half_type() {
  Datatype type(H5Tcopy(H5T_IEEE_F32LE), "make HDF5's half type");
  check(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "make HDF5's half type");
  check(H5Tset_size(type.get(), 2), "make HDF5's half type");
  check(H5Tset_ebias(type.get(), 15), "make HDF5's half type");
  return type;
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock() {
  std::unique_lock guard(process_mutex());
  static const bool silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(silent);
  return guard;
}

void fail(std::string_view what) {
  const auto guard = lock();
  std::string detail;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_entry, &detail);
  H5Eclear2(H5E_DEFAULT);
  throw Error(ErrorCode::io, fmt::format("{}: HDF5: {}", what, detail.empty() ? "failed" : detail));
}

Datatype file_type(DType dtype) {
  const auto guard = lock();
  if (dtype == DType::boolean) return boolean_type();
  if (dtype == DType::float16) return half_type();
  return {H5Tcopy(standard_type(dtype)), "copy an HDF5 type"};
}

}  // namespace rota::hdf5
