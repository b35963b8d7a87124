// Batches: mappings of fields' names to arrays over their memory.

#include <algorithm>
#include <span>
#include <string>

#include "objects.hpp"
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
      .def_property_readonly("end", &Batch::end)
      .def_property_readonly("times", [](const Batch& self) { return to_python(self.times()); })
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
      .def_property_readonly("positions", [](Self self) { return view(batch_of(self).positions(), self); });
}

}  // namespace rota::python
