#pragma once

// Memory of rota as arrays of numpy, and the other way round.

#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rota/batch.hpp"
#include "rota/dtype.hpp"
#include "rota/source.hpp"

namespace rota::python {

namespace py = pybind11;

/// Throws Error{unsupported} where numpy is of a version whose arrays this build would misread: before the
/// first one is made or taken. Needs the GIL.
void require_known_numpy();

/// What the package exports by that name.
py::object package(const char* name);

/// numpy's type of the same elements. It has no bfloat16: that is the bits, uint16.
py::dtype to_numpy(DType dtype);
/// Its name in Python: "bool" for booleans.
std::string name_of(DType dtype);
/// Of a name ("bfloat16"), a numpy dtype, or what numpy takes for one. Throws Error{invalid_argument}.
DType to_dtype(py::handle dtype);

/// A `rota.Field`, and back: of one, or of a tuple with the same items.
py::object to_python(const Field& field);
Field to_field(py::handle field);
/// Of an iterable of fields, or of a mapping of names to (dtype, shape).
std::vector<Field> to_fields(py::handle fields);
py::tuple to_python(std::span<const Field> fields);

/// [rows, field.shape...] over `bytes`, which live as long as `owner` does.
py::array view(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner);
/// The same of numbers, [size] or [size, columns].
template <typename T>
py::array view(std::span<const T> numbers, py::handle owner, std::int64_t columns = 1) {
  require_known_numpy();
  const auto rows = static_cast<py::ssize_t>(numbers.size()) / columns;
  const std::vector<py::ssize_t> shape =
      columns == 1 ? std::vector<py::ssize_t>{rows} : std::vector<py::ssize_t>{rows, columns};
  return {py::dtype::of<T>(), shape, numbers.data(), owner};
}
/// A tensor of a batch of `samples`: an array, or `rota.Ragged`.
py::object view(const Tensor& tensor, std::int64_t samples, py::handle owner);

/// `value` (an array, a number, a list, text, a CPU tensor) as a contiguous array of the field's type, whose
/// last extents are `field.shape`. Throws Error{callback} for other shapes, and for a type that would lose
/// values; `what` begins the message.
py::array to_array(py::handle value, const Field& field, const std::string& what);
/// The number of rows of a ragged field in such an array.
std::int64_t rows_of(const py::array& array);
std::span<const std::byte> bytes_of(const py::array& array);

}  // namespace rota::python
