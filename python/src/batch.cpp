// Batches: mappings of fields' names to arrays over their memory.

#include <algorithm>
#include <span>
#include <string>

#include "objects.hpp"
#include "order/permutation.hpp"
#include "rota/batch.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// Values that are numbers to Python.
template <typename Number, typename T>
std::span<const Number> numbers_of(std::span<const T> values) {
  static_assert(sizeof(T) % sizeof(Number) == 0);
  return {reinterpret_cast<const Number*>(values.data()), values.size_bytes() / sizeof(Number)};
}

// A list of `rota.Index`. Those of one epoch share a dictionary of what makes their keys, which costs half of
// what one each would.
py::list make_indices(const Batch& batch, std::uint64_t seed) {
  static const py::handle type = package("Index").release();  // of a module: it lives as long as Python
  const auto ids = batch.ids();
  const auto epochs = batch.epochs();
  py::list made(ids.size());
  py::dict shared;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i == 0 || epochs[i] != epochs[i - 1]) {
      shared = py::dict();
      shared["epoch"] = epochs[i];
      shared["seed"] = seed;
    }
    const py::tuple number = py::make_tuple(ids[i].value);
    auto index = py::reinterpret_steal<py::object>(
        PyLong_Type.tp_new(reinterpret_cast<PyTypeObject*>(type.ptr()), number.ptr(), nullptr));
    if (!index || PyObject_GenericSetDict(index.ptr(), shared.ptr(), nullptr) != 0)
      throw py::error_already_set();
    PyList_SET_ITEM(made.ptr(), static_cast<py::ssize_t>(i), index.release().ptr());
  }
  return made;
}

const Batch& batch_of(py::handle self) { return self.cast<const Batch&>(); }

py::iterator field_names(const Batch& batch) {
  py::list names;
  for (const Field& field : batch.fields()) names.append(to_name(field.name));
  return py::iter(names);
}

bool has_field(const Batch& batch, py::handle name) {
  return std::ranges::any_of(batch.fields(),
                             [&](const Field& field) { return name.equal(to_name(field.name)); });
}

py::object field_of(const py::object& self, py::handle name) {
  if (!py::isinstance<py::str>(name)) throw py::key_error(py::repr(name).cast<std::string>());
  const Batch& batch = batch_of(self);
  return view(batch.tensor(bytes_of_name(name)), batch.size(), self);
}

}  // namespace

void define_batches(py::module_& module) {
  using Self = const py::object&;
  py::class_<Batch>(module, "Batch")
      .def("__len__", [](const Batch& self) { return self.fields().size(); })
      .def("__iter__", &field_names)
      .def("__contains__", &has_field)
      .def("__getitem__", &field_of)
      .def_property_readonly("fields", [](const Batch& self) { return to_tuple(self.fields()); })
      .def_property_readonly("size", &Batch::size)
      .def_property_readonly("real", &Batch::real)
      .def_property_readonly("start", &Batch::start)
      .def_property_readonly("global_size", &Batch::global_size)
      .def_property_readonly("global_real", &Batch::global_real)
      .def_property_readonly(
          "ids", [](Self self) { return view(numbers_of<std::int64_t>(batch_of(self).ids()), self); })
      .def_property_readonly(
          "kinds", [](Self self) { return view(numbers_of<std::uint8_t>(batch_of(self).kinds()), self); })
      .def_property_readonly("epochs", [](Self self) { return view(batch_of(self).epochs(), self); })
      .def_property_readonly("datasets", [](Self self) { return view(batch_of(self).datasets(), self); })
      .def_property_readonly("slots", [](Self self) { return view(batch_of(self).slots(), self); })
      .def_property_readonly(
          "stream_ids",
          [](Self self) { return view(numbers_of<std::int64_t>(batch_of(self).stream_ids()), self, 3); })
      .def_property_readonly("positions", [](Self self) { return view(batch_of(self).positions(), self); })
      .def("_indices", &make_indices);
  module.def("sample_key", [](std::uint64_t seed, std::int64_t epoch, std::int64_t id) {
    return internal::derive_key(seed, epoch, internal::Purpose::transform, id).low;
  });
}

}  // namespace rota::python
