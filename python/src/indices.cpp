// Lists of `rota.Index`, which has its epoch, its seed and what its id is by its type.

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "order.hpp"
#include "order/permutation.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// What `rota._indices` has by that name, as long as Python lives.
py::handle of_module(const char* name) {
  return py::object(py::module_::import("rota._indices").attr(name)).release();
}

PyTypeObject* as_type(py::handle type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }

// Ids, epochs, kinds, seed and shifts of a list; None, where it has anything else, such as several seeds.
py::object encode_indices(const py::list& list) {
  static const py::handle base = of_module("Index");
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> epochs;
  std::vector<SlotKind> kinds;
  std::vector<std::int64_t> shifts;
  ids.reserve(list.size());
  epochs.reserve(list.size());
  py::object seed;
  PyTypeObject* type = nullptr;
  for (const py::handle index : list) {
    if (Py_TYPE(index.ptr()) == type) {
      epochs.push_back(epochs.back());
      kinds.push_back(kinds.back());
      shifts.push_back(shifts.back());
    } else {
      if (!py::isinstance(index, base)) return py::none();
      if (seed && !seed.equal(index.attr("seed"))) return py::none();
      type = py::hasattr(index, "__dict__") ? nullptr : Py_TYPE(index.ptr());
      seed = index.attr("seed");
      epochs.push_back(index.attr("epoch").cast<std::int64_t>());
      kinds.push_back(index.attr("is_pad").cast<bool>() ? SlotKind::pad : SlotKind::sample);
      shifts.push_back(index.attr("shift").cast<std::int64_t>());
    }
    const std::int64_t number = PyLong_AsLongLong(index.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) return PyErr_Clear(), py::none();
    ids.push_back(number + shifts.back());
  }
  if (std::ranges::count(shifts, 0) == std::ssize(shifts)) shifts.clear();
  if (!seed) return py::none();
  return py::make_tuple(to_bytes(ids), to_bytes(epochs), to_bytes(kinds), seed, to_bytes(shifts));
}

}  // namespace

void PyRun::go_to(const Run& run) {
  const auto before = internal::RunAccess::order(*this);
  static_cast<Run&>(*this) = run;
  const internal::RunOrder& now = *internal::RunAccess::order(run);
  if (before.get() == &now || !own) return;
  const internal::RunOrder& made = *internal::RunAccess::order(*own);
  std::vector<std::int64_t> behind;
  for (std::size_t d = 0; d < now.names.size(); ++d) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(made.names, now.names[d]) - made.names.begin());
    behind.push_back(at == made.names.size() ? kAbsent : now.firsts[d] - made.firsts[at]);
  }
  shifts = std::make_shared<const std::vector<std::int64_t>>(std::move(behind));
  content =
      now.names == made.names ? own->content : std::make_shared<const std::vector<internal::SampleContent>>();
}

void require_present(const PyRun& self, const RunSlice& batch) {
  for (const std::int32_t dataset : self.shifts ? batch.datasets : std::vector<std::int32_t>()) {
    if ((*self.shifts)[static_cast<std::size_t>(dataset)] != PyRun::kAbsent) continue;
    throw internal::failure(
        ErrorCode::invalid_argument,
        "draw a batch of step {}: it has samples of the dataset {}, which was left out when the run went on; "
        "make the sampler with it again",
        batch.start.step, internal::RunAccess::order(self)->names[static_cast<std::size_t>(dataset)]);
  }
}

py::object indices_of(const PyRun& self, const RunSlice& batch) {
  std::vector<std::int64_t> shifts;
  for (const std::int32_t dataset : self.shifts ? batch.datasets : std::vector<std::int32_t>())
    shifts.push_back((*self.shifts)[static_cast<std::size_t>(dataset)]);
  const internal::RunOrder& order = *internal::RunAccess::order(self);
  const auto& left_out = internal::RunAccess::path(self).at(batch.start.step).left_out;
  std::vector<SampleId> read;  // where that is not what the batch has
  if (left_out) read = batch.ids;
  for (std::size_t slot = 0; slot < read.size(); ++slot)
    if (batch.kinds[slot] == SlotKind::skipped) read[slot] = order.instead_of(read[slot], *left_out);
  return make_indices(left_out ? read : batch.ids, batch.epochs, batch.kinds, order.seed, shifts);
}

py::object make_indices(std::span<const SampleId> ids, std::span<const std::int64_t> epochs,
                        std::span<const SlotKind> kinds, std::uint64_t seed,
                        std::span<const std::int64_t> shifts) {
  static const py::handle list_type = of_module("Indices");
  static const py::handle type_of = of_module("index_type");
  const py::object all = unless_raised(PyList_New(static_cast<py::ssize_t>(ids.size())));
  py::object type;
  newfunc make = nullptr;  // without the ways of a call: a fifth of the time
  const py::tuple number(1);
  for (PyObject* const half_made : {all.ptr(), number.ptr()})
    PyObject_GC_UnTrack(half_made);  // nobody finds it
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t shift = shifts.empty() ? 0 : shifts[i];
    if (i == 0 || epochs[i] != epochs[i - 1] || kinds[i] != kinds[i - 1] ||
        (!shifts.empty() && shift != shifts[i - 1])) {
      type = type_of(epochs[i], seed, kinds[i] != SlotKind::sample, shift);
      make = reinterpret_cast<newfunc>(PyType_GetSlot(as_type(type), Py_tp_new));
    }
    number[0] = unless_raised(PyLong_FromLongLong(ids[i].value - shift));
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
  module.def("decode_indices", [](const py::bytes& ids, const py::bytes& epochs, const py::bytes& kinds,
                                  std::uint64_t seed, const py::bytes& shifts) {
    return make_indices(numbers_in<SampleId>(ids), numbers_in<std::int64_t>(epochs),
                        numbers_in<SlotKind>(kinds), seed, numbers_in<std::int64_t>(shifts));
  });
}

}  // namespace rota::python
