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
      .def_property_readonly(
          "fields", [](const Batch& self) { return to_tuple(self.fields()); }, "What tensors there are.")
      .def_property_readonly("size", &Batch::size, "Samples here, which count or not.")
      .def_property_readonly("real", &Batch::real, "Samples here that count.")
      .def_property_readonly("start", &Batch::start, "The position before it.")
      .def_property_readonly("end", &Batch::end, "The position behind it.")
      .def_property_readonly(
          "times", [](const Batch& self) { return to_python(self.times()); },
          "A dict: seconds that the loop waited for it, and a worker read and transformed it, and what was "
          "slow.")
      .def_property_readonly("global_size", &Batch::global_size,
                             "Samples of all ranks, which count or not. Not of streams.")
      .def_property_readonly(
          "global_real", &Batch::global_real,
          "Samples of all ranks that count. An error where several ranks may skip some: sum "
          "`real` over ranks.")
      .def_property_readonly(
          "ids", [](Self self) { return view(numbers_of<std::int64_t>(batch_of(self).ids()), self); },
          "[size], int64: the samples.")
      .def_property_readonly(
          "kinds", [](Self self) { return view(numbers_of<std::uint8_t>(batch_of(self).kinds()), self); },
          "[size], uint8: 0 a sample, 1 padding, 2 skipped.")
      .def_property_readonly(
          "epochs", [](Self self) { return view(batch_of(self).epochs(), self); },
          "[size], int64: of each sample.")
      .def_property_readonly(
          "datasets", [](Self self) { return view(batch_of(self).datasets(), self); },
          "[size], int32: which of a mixture's datasets each sample is of.")
      .def_property_readonly(
          "slots", [](Self self) { return view(batch_of(self).slots(), self); },
          "[size], int64: places in the global batch, ascending.")
      .def_property_readonly(
          "stream_ids",
          [](Self self) { return view(numbers_of<std::int64_t>(batch_of(self).stream_ids()), self, 3); },
          "[size, 3], int64: of streams, shard, input and output of each sample: see `StreamId`.")
      .def_property_readonly(
          "positions", [](Self self) { return view(batch_of(self).positions(), self); },
          "[size], int64: of streams, the number of each sample in its shard's stream.");
}

}  // namespace rota::python
