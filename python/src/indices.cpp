// What a sampler draws: batches that are planned and not read, and lists of their indices.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "loader/batch_memory.hpp"
#include "loader/loader_impl.hpp"
#include "objects.hpp"
#include "order/permutation.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// ---- lists of `rota.Index`, which has its epoch and seed by its type ----

// What `rota._indices` has by that name, as long as Python lives.
py::handle of_module(const char* name) {
  return py::object(py::module_::import("rota._indices").attr(name)).release();
}

PyTypeObject* as_type(py::handle type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }

py::object make_indices(std::span<const SampleId> ids, std::span<const std::int64_t> epochs,
                        std::span<const SlotKind> kinds, std::uint64_t seed) {
  static const py::handle list_type = of_module("Indices");
  static const py::handle type_of = of_module("index_type");
  py::object made = list_type();
  py::object type;
  newfunc make = nullptr;  // without the ways of a call: a fifth of the time
  const py::tuple number(1);
  PyObject_GC_UnTrack(number.ptr());  // it has nothing yet, and is changed
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i == 0 || epochs[i] != epochs[i - 1] || kinds[i] != kinds[i - 1]) {
      type = type_of(epochs[i], seed, kinds[i] == SlotKind::pad);
      make = reinterpret_cast<newfunc>(PyType_GetSlot(as_type(type), Py_tp_new));
    }
    number[0] = unless_raised(PyLong_FromLongLong(ids[i].value));
    if (PyList_Append(made.ptr(), unless_raised(make(as_type(type), number.ptr(), nullptr)).ptr()) != 0)
      throw py::error_already_set();
  }
  return made;
}

template <typename T>
std::span<const T> numbers_in(const py::bytes& bytes) {
  const auto all = static_cast<std::string_view>(bytes);
  return {reinterpret_cast<const T*>(all.data()), all.size() / sizeof(T)};
}
template <typename T>
py::bytes to_bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(numbers[0])};
}

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

// ---- batches that are planned ----

/// Those of a loader's rank from where it is on, for as long as nothing changes but its place.
class Plan {
 public:
  Plan(const Loader& loader, bool is_of_one_epoch)
      : order_(loader.impl().run_order),
        planner_(order_, loader.options(), loader.world()),
        at_(loader.position()),
        last_epoch_(is_of_one_epoch ? at_.epoch : kEndless),
        seed_(loader.options().seed) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// The indices of the next batch, which goes to the end of `drawn`; None behind the last one.
  py::object draw(const py::object& drawn) {
    if (at_.epoch > last_epoch_) return py::none();
    auto memory = pool_->take();
    if (!planner_.plan(at_, *memory)) return py::none();
    const Position next = memory->global.next;
    py::object made = make_indices(memory->ids, memory->epochs, memory->kinds, seed_);
    drawn.attr("append")(pool_->wrap(std::move(memory)));
    at_ = next;
    return made;
  }

 private:
  internal::RunOrder order_;
  internal::Planner planner_;
  Position at_;
  std::int64_t last_epoch_;
  std::uint64_t seed_;
  std::shared_ptr<internal::BatchPool> pool_ = std::make_shared<internal::BatchPool>(
      std::vector<Field>(), Allocator(), std::size_t{64}, std::int64_t{0});
};

}  // namespace

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
  py::class_<Plan>(module, "Plan")
      .def(py::init([](OneThread<Loader>& loader, bool is_of_one_epoch) {
        return loader.use([&](Loader& l) { return std::make_unique<Plan>(l, is_of_one_epoch); });
      }))
      .def("draw", &Plan::draw);
}

}  // namespace rota::python
