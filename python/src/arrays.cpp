#include "arrays.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl.h>

#include <string_view>

#include "errors.hpp"
#include "rota/error.hpp"

namespace rota::python {
namespace {

std::vector<std::int64_t> shape_of(const py::array& array) {
  return {array.shape(), array.shape() + array.ndim()};
}

}  // namespace

// pybind11 before 2.12 knows the memory of numpy 1's dtypes alone; of numpy 2's it reads an itemsize of 0.
void require_known_numpy() {
#if PYBIND11_VERSION_MAJOR == 2 && PYBIND11_VERSION_MINOR < 12
  static bool is_known = false;
  if (is_known) return;
  const auto version = py::module_::import("numpy").attr("__version__").cast<std::string>();
  if (!version.starts_with("1.")) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "use numpy {}: this build of rota knows numpy 1 alone, as it was made with pybind11 {}.{}; "
            "install it anew in this environment (pip install . brings a newer pybind11), or take an "
            "older numpy (pip install \"numpy<2\")",
            version, PYBIND11_VERSION_MAJOR, PYBIND11_VERSION_MINOR));
  }
  is_known = true;
#endif
}

py::object package(const char* name) { return py::module_::import("rota").attr(name); }

py::dtype to_numpy(DType dtype) {
  require_known_numpy();
  if (dtype == DType::bfloat16) return py::dtype("uint16");
  return py::dtype(name_of(dtype));
}

std::string name_of(DType dtype) { return dtype == DType::boolean ? "bool" : std::string(to_string(dtype)); }

DType to_dtype(py::handle dtype) {
  require_known_numpy();
  if (py::isinstance<py::str>(dtype) && dtype.cast<std::string>() == "bfloat16") return DType::bfloat16;
  py::dtype numpy;
  try {
    numpy = py::dtype::from_args(py::reinterpret_borrow<py::object>(dtype));
  } catch (const py::error_already_set&) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no dtype {}; take one of numpy's, or \"bfloat16\"",
                            py::repr(dtype).cast<std::string>()));
  }
  const auto name = py::str(numpy.attr("name")).cast<std::string>();
  const bool is_native = numpy.attr("isnative").cast<bool>();
  if (name == "bool") return DType::boolean;
  try {
    if (is_native) return parse_dtype(name);
  } catch (const Error&) {  // said below
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("rota has no elements of dtype {}: only booleans, integers and floats of up to 64 "
                          "bits in native byte order",
                          py::repr(numpy).cast<std::string>()));
}

py::object to_python(const Field& field) {
  return package("Field")(to_name(field.name), name_of(field.dtype), py::tuple(py::cast(field.shape)),
                          field.ragged);
}

Field to_field(py::handle field) {
  const py::object made = package("Field")(*py::tuple(py::reinterpret_borrow<py::object>(field)));
  return {.name = bytes_of_name(made.attr("name")),
          .dtype = to_dtype(made.attr("dtype")),
          .shape = made.attr("shape").cast<std::vector<std::int64_t>>(),
          .ragged = made.attr("ragged").cast<bool>()};
}

std::vector<Field> to_fields(py::handle fields) {
  std::vector<Field> made;
  for (const py::handle field : py::module_::import("rota._values").attr("as_fields")(fields))
    made.push_back(to_field(field));
  return made;
}

py::tuple to_python(std::span<const Field> fields) {
  py::tuple made(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) made[f] = to_python(fields[f]);
  return made;
}

py::array view(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner) {
  std::vector<py::ssize_t> shape{rows};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return {to_numpy(field.dtype), std::move(shape), bytes.data(), owner};
}

py::object view(const Tensor& tensor, std::int64_t samples, py::handle owner) {
  const Field& field = *tensor.field;
  if (!field.ragged) return view(field, samples, tensor.bytes, owner);
  const std::int64_t rows = tensor.offsets.empty() ? 0 : tensor.offsets.back();
  return package("Ragged")(view(field, rows, tensor.bytes, owner), view(tensor.offsets, owner));
}

py::array to_array(py::handle value, const Field& field, const std::string& what) {
  py::array array;
  try {
    array = py::module_::import("rota._values")
                .attr("as_array")(value, to_numpy(field.dtype), field.dtype == DType::bfloat16);
  } catch (const py::error_already_set& raised) {
    if (!raised.matches(PyExc_TypeError) && !raised.matches(PyExc_ValueError)) throw;
    refuse(fmt::format("{}: {}", what, py::str(raised.value()).cast<std::string>()));
  }
  const std::vector<std::int64_t> shape = shape_of(array);
  const std::size_t rows = field.ragged ? 1 : 0;
  const bool fits =
      shape.size() == field.shape.size() + rows &&
      std::equal(field.shape.begin(), field.shape.end(), shape.begin() + static_cast<std::ptrdiff_t>(rows));
  if (fits) return array;
  refuse(fmt::format("{}: it is of shape [{}]; field \"{}\" has [{}{}]", what, fmt::join(shape, ", "),
                     field.name, field.ragged ? (field.shape.empty() ? "rows" : "rows, ") : "",
                     fmt::join(field.shape, ", ")));
}

std::int64_t rows_of(const py::array& array) { return array.shape(0); }

std::span<const std::byte> bytes_of(const py::array& array) {
  return {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())};
}

}  // namespace rota::python
