// Loader and Batch, as Python sees them.

#include "rota/loader.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "communicator.hpp"
#include "core/lines.hpp"
#include "errors.hpp"
#include "functions.hpp"
#include "loader.hpp"
#include "loader/loader_impl.hpp"
#include "order/permutation.hpp"
#include "rota/error.hpp"

namespace rota::python {
namespace {

LoaderOptions to_options(const py::dict& given) {
  LoaderOptions options;
  options.global_batch_size = option<std::int64_t>(given, "global_batch_size");
  const bool are_files =
      py::isinstance<py::str>(given["shards"]) && py::cast<std::string>(given["shards"]) == "files";
  options.shards = are_files ? kFileShards : option<std::int64_t>(given, "shards");
  options.interleave = option<std::int64_t>(given, "interleave");
  options.shuffle = parse_shuffle(option<std::string>(given, "shuffle"));
  options.seed = option<std::uint64_t>(given, "seed");
  const auto block = option<std::pair<py::object, py::object>>(given, "block");
  options.block = {.samples = value_of<std::int64_t>(block.first, "block"),
                   .blocks = value_of<std::int64_t>(block.second, "block")};
  options.tail = parse_tail(option<std::string>(given, "tail"));
  options.rank_split = parse_split(option<std::string>(given, "rank_split"));
  options.worker_split = parse_split(option<std::string>(given, "worker_split"));
  options.epochs = given["epochs"].is_none() ? kEndless : option<std::int64_t>(given, "epochs");
  options.evaluation = option<bool>(given, "evaluation");
  options.workers = option<int>(given, "workers");
  options.read_ahead_batches = option<std::int64_t>(given, "read_ahead_batches");
  options.read_ahead_bytes = option<std::int64_t>(given, "read_ahead_bytes");
  options.deadline = seconds(given, "deadline");
  options.slow_after = seconds(given, "slow_after");
  if (!given["transform"].is_none()) {
    options.transform = to_transform(given["transform"], to_fields(given["transform_fields"]));
  }
  if (!given["collate"].is_none()) {
    options.collate = to_collate(given["collate"], to_fields(given["collate_fields"]));
  }
  if (!given["allocator"].is_none()) options.allocator = to_allocator(given["allocator"]);
  options.bad_samples = {
      .policy = option<bool>(given, "skip_bad_samples") ? OnBadSample::skip : OnBadSample::fail,
      .max_skipped = option<std::int64_t>(given, "max_skipped"),
      .io_retries = option<int>(given, "io_retries"),
      .retry_wait = seconds(given, "retry_wait")};
  return options;
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
      .def_property_readonly("start", [](const Batch& self) { return object_of(self.start()); })
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

py::dict dict_of(const LoaderStats& stats) {
  py::list workers;
  for (const WorkerStats& worker : stats.workers) {
    py::dict one;
    one["samples"] = worker.samples;
    one["bytes"] = worker.bytes;
    one["read_seconds"] = worker.read_seconds;
    workers.append(one);
  }
  py::dict made;
  made["batches"] = stats.batches;
  made["samples"] = stats.samples;
  made["skipped"] = stats.skipped;
  made["bytes"] = stats.bytes;
  made["wait_seconds"] = stats.wait_seconds;
  made["ready_batches"] = stats.ready_batches;
  made["retries"] = stats.retries;
  made["fetched_files"] = stats.fetched.files;
  made["fetched_bytes"] = stats.fetched.bytes;
  made["workers"] = workers;
  return made;
}

py::object object_of(const Position& at) { return package("Position")(at.epoch, at.consumed, at.step); }

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
  module.def("check_loader_options", [](const py::dict& options) { static_cast<void>(to_options(options)); });
  define_loader_class<Loader>(module, "Loader")
      .def(py::init([](const PySource& source, const py::dict& options, const py::tuple& world) {
        return make_loader<Loader>(false, source.source, to_options(options), to_world(world));
      }))
      .def(py::init([](const py::tuple& mixture, const py::dict& options, const py::tuple& world) {
        return make_loader<Loader>(false, to_mixture(mixture), to_options(options), to_world(world));
      }))
      .def(py::init([](const PySource& source, const py::dict& options, const PyCommunicator& comm) {
        return make_with<Loader>(comm, source.source, to_options(options));
      }))
      .def(py::init([](const py::tuple& mixture, const py::dict& options, const PyCommunicator& comm) {
        return make_with<Loader>(comm, to_mixture(mixture), to_options(options));
      }))
      .def("warm_up", [](PyLoader& self) { self.use([](Loader& loader) { loader.warm_up(); }); })
      .def("restart", [](PyLoader& self) { self.use([](Loader& l) { l.restart(); }); })
      .def("_begin", [](PyLoader& self) { self.use([](Loader& l) { l.begin_for(); }); })
      .def("seek",
           [](PyLoader& self, const py::tuple& position) {
             self.use([at = to_position(position)](Loader& l) { l.seek(at); });
           })
      .def("when",
           [](PyLoader& self, std::int64_t id, std::int64_t epoch) -> py::object {
             const auto found = self.use([&](Loader& l) { return l.when({id}, epoch); });
             if (!found) return py::none();
             return package("BatchSlot")(found->step, found->rank, found->slot);
           })
      .def("_rescale",
           [](PyLoader& self, const py::tuple& world) {
             self.use([to = to_world(world)](Loader& l) { l.rescale(to); });
           })
      .def("_rescale",
           [](PyLoader& self, const PyCommunicator& comm) {
             self.use([to = comm.get()](Loader& l) { l.rescale(*to); });
           })
      .def("set_global_batch_size",
           [](PyLoader& self, std::int64_t size) {
             self.use([&](Loader& l) { l.set_global_batch_size(size); });
           })
      .def("set_weights",
           [](PyLoader& self, const std::vector<double>& weights) {
             self.use([&](Loader& l) { l.set_weights(weights); });
           })
      .def("first_id",
           [](PyLoader& self, std::int64_t dataset) {
             return self.use([&](Loader& l) { return l.first_id(dataset).value; });
           })
      .def("_described",
           [](PyLoader& self) { return to_text(self.use([](Loader& l) { return l.impl().described(); })); })
      .def("_steps",
           [](PyLoader& self, bool of_epoch) {
             return self.use([&](Loader& l) { return of_epoch ? l.steps_per_epoch() : l.steps(); });
           })
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
      .def("_described", [](PyLoader& self) {
        return to_text(self.use([](Loader& l) { return internal::LoaderAccess::described(l); }));
      });
}

}  // namespace rota::python
