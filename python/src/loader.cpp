// Loader and Batch, as Python sees them.

#include "rota/loader.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "communicator.hpp"
#include "core/text.hpp"
#include "errors.hpp"
#include "functions.hpp"
#include "loader.hpp"
#include "loader/loader_impl.hpp"
#include "options.hpp"
#include "order/permutation.hpp"
#include "rota/error.hpp"

namespace rota::python {
namespace {

std::vector<double> to_weights(py::handle given) {
  std::vector<double> weights;
  for (const py::handle one : given) weights.push_back(take<double>(one, {"mix datasets", "a weight"}));
  return weights;
}

// Of sources, weights and options.
Mixture to_mixture(const py::tuple& given) {
  const MixtureOptions options = kMixtureOptions.parse(given[2]);
  const auto sources = given[0].cast<std::vector<PySource>>();
  const auto weights = to_weights(given[1]);
  if (sources.size() != weights.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("mix datasets: {} datasets, but {} weights", sources.size(), weights.size()));
  }
  Mixture mixture{.end = options.end, .steps = options.steps};
  for (std::size_t d = 0; d < sources.size(); ++d) {
    mixture.datasets.push_back({.source = sources[d].source, .weight = weights[d]});
  }
  return mixture;
}

using PyLoader = OneThread<Loader>;

// ---- batches ----

std::span<const std::int64_t> numbers_of(std::span<const SampleId> ids) {
  static_assert(sizeof(SampleId) == sizeof(std::int64_t));
  return {reinterpret_cast<const std::int64_t*>(ids.data()), ids.size()};
}

std::span<const std::int64_t> numbers_of(std::span<const StreamId> ids) {
  static_assert(sizeof(StreamId) == 3 * sizeof(std::int64_t));
  return {reinterpret_cast<const std::int64_t*>(ids.data()), 3 * ids.size()};
}

std::span<const std::uint8_t> numbers_of(std::span<const SlotKind> kinds) {
  return {reinterpret_cast<const std::uint8_t*>(kinds.data()), kinds.size()};
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

py::iterator names_of(const Batch& batch) {
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

// A mapping of fields' names to arrays over a batch's memory.
void define_batches(py::module_& module) {
  using Self = const py::object&;
  py::class_<Batch>(module, "Batch")
      .def("__len__", [](const Batch& self) { return self.fields().size(); })
      .def("__iter__", &names_of)
      .def("__contains__", &has_field)
      .def("__getitem__", &field_of)
      .def_property_readonly("fields", [](const Batch& self) { return to_python(self.fields()); })
      .def_property_readonly("size", &Batch::size)
      .def_property_readonly("real", &Batch::real)
      .def_property_readonly("start", &Batch::start)
      .def_property_readonly("global_size", &Batch::global_size)
      .def_property_readonly("global_real", &Batch::global_real)
      .def_property_readonly("ids", [](Self self) { return view(numbers_of(batch_of(self).ids()), self); })
      .def_property_readonly("kinds",
                             [](Self self) { return view(numbers_of(batch_of(self).kinds()), self); })
      .def_property_readonly("epochs", [](Self self) { return view(batch_of(self).epochs(), self); })
      .def_property_readonly("datasets", [](Self self) { return view(batch_of(self).datasets(), self); })
      .def_property_readonly("slots", [](Self self) { return view(batch_of(self).slots(), self); })
      .def_property_readonly("stream_ids",
                             [](Self self) { return view(numbers_of(batch_of(self).stream_ids()), self, 3); })
      .def_property_readonly("positions", [](Self self) { return view(batch_of(self).positions(), self); })
      .def("_indices", &make_indices);
}

}  // namespace

std::string state_text(py::handle state) {
  if (PyMapping_Check(state.ptr()) != 0 && py::hasattr(state, "get")) {
    const py::object text = state.attr("get")("rota");
    if (py::isinstance<py::str>(text)) return text.cast<std::string>();
  }
  throw Error(ErrorCode::invalid_argument,
              "load a state: it must be what state_dict() returned, a dict with the text \"rota\"");
}

namespace {

using LoaderClass = py::class_<PyLoader>;

Position to_position(const py::iterable& given) {
  std::vector<std::int64_t> numbers;
  for (const py::handle one : given) {
    numbers.push_back(take<std::int64_t>(one, {"go to a position", "a number of it"}));
  }
  if (numbers.size() != 3) throw py::type_error("go to a position: it is (epoch, consumed, step)");
  return {.epoch = numbers[0], .consumed = numbers[1], .step = numbers[2]};
}

std::optional<BatchSlot> when(PyLoader& self, py::handle id, py::handle epoch) {
  const SampleId sample{take<std::int64_t>(id, {"look up a sample", "id"})};
  const auto of = take<std::int64_t>(epoch, {"look up a sample", "epoch"});
  return self.use([&](Loader& l) { return l.when(sample, of); });
}

std::optional<Position> position_of(PyLoader& self, py::handle step) {
  const auto number = take<std::int64_t>(step, {"find a step", "step"});
  return self.use([&](Loader& l) { return l.position_of(number); });
}

std::int64_t length(PyLoader& self) {
  try {
    return self.use([](Loader& l) { return l.steps(); });
  } catch (const Error& error) {  // by a TypeError list() knows that there is none
    if (error.code() != ErrorCode::unsupported) throw;
    throw py::type_error(error.what());
  }
}

template <typename Place, typename Make>
void define_making(LoaderClass& loader, const Make& make) {
  loader
      .def(py::init([make](const PySource& source, const LoaderOptions& options, const Place& place) {
        return make(source.source, options, place);
      }))
      .def(py::init([make](const py::tuple& mixture, const LoaderOptions& options, const Place& place) {
        return make(to_mixture(mixture), options, place);
      }));
}

void define_place(LoaderClass& loader) {
  loader
      .def("__iter__",
           [](py::object self) {
             self.cast<PyLoader&>().use([](Loader& l) { l.begin_for(); });
             return self;
           })
      .def("restart", in_turn(&Loader::restart), "Begins anew, with the first sample of the first epoch.")
      .def(
          "seek",
          [](PyLoader& self, const py::iterable& position) {
            self.use([at = to_position(position)](Loader& l) { l.seek(at); });
          },
          py::arg("position"), "Goes to `position`, as of this order; what was read ahead is dropped.")
      .def("position_of", &position_of, py::arg("step"), "Where `step` begins; None past the end.")
      .def("when", &when, py::arg("id"), py::arg("epoch"),
           "The step, rank and slot in which sample `id` is read in `epoch`; None where it never is.")
      .def("__len__", &length,
           "Steps of all epochs, wherever the run stands. TypeError of a mixture, and without a last epoch.")
      .def("__bool__", [](PyLoader&) { return true; })
      .def_property_readonly("steps_per_epoch", in_turn(&Loader::steps_per_epoch),
                             "At this batch size. UnsupportedError of a mixture.");
}

void define_changes(LoaderClass& loader) {
  loader
      .def("_rescale",
           [](PyLoader& self, const PyCommunicator& comm) {
             self.use([to = comm.get()](Loader& l) { l.rescale(*to); });
           })
      .def("_rescale",
           [](PyLoader& self, py::handle world) {
             self.use([to = take<World>(world, {"place a loader", "world"})](Loader& l) { l.rescale(to); });
           })
      .def(
          "set_global_batch_size",
          [](PyLoader& self, py::handle size) {
            const auto to = take<std::int64_t>(size, {"set a batch size", "it"});
            self.use([&](Loader& l) { l.set_global_batch_size(to); });
          },
          py::arg("size"), "Goes on with batches of another size. All ranks do it at the same step.")
      .def(
          "set_weights",
          [](PyLoader& self, py::handle weights) {
            self.use([to = to_weights(weights)](Loader& l) { l.set_weights(to); });
          },
          py::arg("weights"),
          "Goes on with other weights of a mixture's datasets. All ranks do it at the same step.");
}

}  // namespace

void define_loader(py::module_& module) {
  define_batches(module);
  module.def("sample_key", [](std::uint64_t seed, std::int64_t epoch, std::int64_t id) {
    return internal::derive_key(seed, epoch, internal::Purpose::transform, id).low;
  });
  module.def("end_waits", &end_waits);
  module.def("require_same_lines", &internal::require_same_lines);
  LoaderClass loader = define_loader_class<Loader>(module, "Loader");
  module.def("check_mixture", [](const py::tuple& mixture) { (void)to_mixture(mixture); });
  define_making<PyCommunicator>(loader, [](const auto& data, const auto& options, const auto& comm) {
    return make_with<Loader>(comm, data, options);
  });
  define_making<py::object>(loader, [](const auto& data, const auto& options, const auto& world) {
    return make_loader<Loader>(false, data, options, take<World>(world, {"place a loader", "world"}));
  });
  define_place(loader);
  define_changes(loader);
  loader
      .def("warm_up", in_turn(&Loader::warm_up),
           "Opens what the first batch needs, and waits for it: so that a job does not wait in its first "
           "step.")
      .def(
          "first_id",
          [](PyLoader& self, py::handle dataset) {
            const auto number = take<std::int64_t>(dataset, {"look up a dataset", "its number"});
            return self.use([&](Loader& l) { return l.first_id(number).value; });
          },
          py::arg("dataset"),
          "The id of the first sample of a mixture's dataset: ids number all of them, dataset by dataset.")
      .def_property_readonly(
          "skipped", [](PyLoader& self) { return self.use([](Loader& l) { return l.skipped().samples; }); },
          "The first bad samples that were skipped, of all ranks.")
      .def_property_readonly(
          "skipped_count",
          [](PyLoader& self) { return self.use([](Loader& l) { return l.skipped().count; }); },
          "All that were skipped, of all ranks.")
      .def_property_readonly(
          "_is_evaluation",
          [](PyLoader& self) { return self.use([](Loader& l) { return l.options().evaluation; }); })
      .def("_described",
           [](PyLoader& self) { return to_text(self.use([](Loader& l) { return l.impl().described(); })); });
}

}  // namespace rota::python
