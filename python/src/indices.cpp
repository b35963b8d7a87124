// Lists of `rota.Index`, which has its epoch and seed by its type.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>
#include <vector>

#include "objects.hpp"
#include "order/permutation.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// What `rota._indices` has by that name, as long as Python lives.
py::handle of_module(const char* name) {
  return py::object(py::module_::import("rota._indices").attr(name)).release();
}

PyTypeObject* as_type(py::handle type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }

// Ids, epochs, kinds and seed of a list; None, where it has anything else, such as several seeds.
py::object encode_indices(const py::list& list) {
  static const py::handle base = of_module("Index");
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> epochs;
  std::vector<SlotKind> kinds;
  ids.reserve(list.size());
  epochs.reserve(list.size());
  py::object seed;
  PyTypeObject* type = nullptr;
  for (const py::handle index : list) {
    if (Py_TYPE(index.ptr()) == type) {
      epochs.push_back(epochs.back());
      kinds.push_back(kinds.back());
    } else {
      if (!py::isinstance(index, base)) return py::none();
      if (seed && !seed.equal(index.attr("seed"))) return py::none();
      type = Py_TYPE(index.ptr());
      seed = index.attr("seed");
      epochs.push_back(index.attr("epoch").cast<std::int64_t>());
      kinds.push_back(index.attr("is_pad").cast<bool>() ? SlotKind::pad : SlotKind::sample);
    }
    ids.push_back(PyLong_AsLongLong(index.ptr()));
    if (ids.back() == -1 && PyErr_Occurred() != nullptr) return PyErr_Clear(), py::none();
  }
  if (!seed) return py::none();
  return py::make_tuple(to_bytes(ids), to_bytes(epochs), to_bytes(kinds), seed);
}

}  // namespace

py::object make_indices(std::span<const SampleId> ids, std::span<const std::int64_t> epochs,
                        std::span<const SlotKind> kinds, std::uint64_t seed) {
  static const py::handle list_type = of_module("Indices");
  static const py::handle type_of = of_module("index_type");
  const py::object all = unless_raised(PyList_New(static_cast<py::ssize_t>(ids.size())));
  py::object type;
  newfunc make = nullptr;  // without the ways of a call: a fifth of the time
  const py::tuple number(1);
  for (PyObject* const half_made : {all.ptr(), number.ptr()})
    PyObject_GC_UnTrack(half_made);  // nobody finds it
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i == 0 || epochs[i] != epochs[i - 1] || kinds[i] != kinds[i - 1]) {
      type = type_of(epochs[i], seed, kinds[i] == SlotKind::pad);
      make = reinterpret_cast<newfunc>(PyType_GetSlot(as_type(type), Py_tp_new));
    }
    number[0] = unless_raised(PyLong_FromLongLong(ids[i].value));
    PyList_SET_ITEM(all.ptr(), static_cast<py::ssize_t>(i),
                    unless_raised(make(as_type(type), number.ptr(), nullptr)).release().ptr());
  }
  return list_type(all);
}

void define_indices(py::module_& module) {
  module.def("sample_key", [](std::uint64_t seed, std::int64_t epoch, std::int64_t id) {
    return internal::derive_key(seed, epoch, internal::Purpose::transform, id).low;
  });
  module.def("encode_indices", &encode_indices);
  module.def("decode_indices",
             [](const py::bytes& ids, const py::bytes& epochs, const py::bytes& kinds, std::uint64_t seed) {
               return make_indices(numbers_in<SampleId>(ids), numbers_in<std::int64_t>(epochs),
                                   numbers_in<SlotKind>(kinds), seed);
             });
}

}  // namespace rota::python
