// Loaders, and traces of what they hand out.

#include "rota/loader.hpp"

#include <pybind11/stl/filesystem.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/failure.hpp"
#include "core/owned.hpp"
#include "loader/loader_impl.hpp"
#include "objects.hpp"
#include "options.hpp"
#include "order.hpp"
#include "rota/resume.hpp"
#include "rota/stream_loader.hpp"
#include "rota/trace.hpp"
#include "stream/stream_loader_impl.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// ---- what loaders of samples and of streams share ----

// Of some step, for `compare_ranks`.
struct KeptStats {
  LoaderStats stats;
};

// Makes a loader of `arguments`, without the GIL.
template <typename T, typename... Arguments>
std::unique_ptr<OneThread<T>> make_loader(HasEnded has_ended, const Arguments&... arguments) {
  const Unlocked unlocked;
  return std::make_unique<OneThread<T>>("a loader", std::make_shared<T>(arguments...), has_ended);
}

// With the ranks of a communicator.
template <typename T, typename... Arguments>
std::unique_ptr<OneThread<T>> make_with(const std::shared_ptr<const Communicator>& ranks,
                                        const Arguments&... arguments) {
  return make_loader<T>(ranks::end_of(*ranks), *ranks, arguments...);
}

}  // namespace

std::string state_text(py::handle state) {
  if (PyMapping_Check(state.ptr()) != 0 && py::hasattr(state, "get")) {
    const py::object text = state.attr("get")("rota");
    if (py::isinstance<py::str>(text)) return bytes_of_name(text);
  }
  throw Error(ErrorCode::invalid_argument,
              "load a state: it must be what state_dict() returned, a dict with the text \"rota\"");
}

namespace {

// Whether it begins anew in each `for`.
bool has_no_state(const Loader& loader) { return loader.options().evaluation; }
bool has_no_state(const StreamLoader& /*loader*/) { return false; }

// Of a loader that is settled by hand; else none.
std::shared_ptr<internal::Ledger> ledger_of(Loader& loader) {
  const internal::Settling& settling = internal::Behind::of(loader).settling;
  return settling.is_by_hand() ? settling.ledger() : nullptr;
}
std::shared_ptr<internal::Ledger> ledger_of(const StreamLoader& /*loader*/) { return nullptr; }

// What Python's `next` of a loader does, and `__next__`. One that is settled by hand waits for room in no
// turn, so that another thread may take the state meanwhile, which is right whoever draws.
template <typename T>
std::optional<Batch> next_of(OneThread<T>& self) {
  std::shared_ptr<internal::Ledger> ledger;
  std::chrono::milliseconds deadline{};
  const auto draw = [&](T& loader) {
    ledger = ledger_of(loader);
    deadline = loader.options().deadline;
    return ledger && !ledger->has_room() ? std::nullopt : std::optional(loader.next());
  };
  auto batch = self.use(draw);
  for (; !batch; batch = self.use(draw)) unlocked([&] { ledger->wait_for_room(deadline); });
  if (!ledger) self.draw();
  return *batch ? std::optional(std::move(**batch)) : std::nullopt;
}

template <typename T>
py::object begin_for(py::object self) {
  self.cast<OneThread<T>&>().use([](T& loader) { loader.begin_for(); });
  return self;
}

template <typename T>
constexpr bool kIsStateBrief = std::is_same_v<T, Loader>;  // of streams it is made with other ranks

template <typename T>
void define_states(py::class_<OneThread<T>>& loader) {
  using Self = OneThread<T>;
  loader
      .def(
          "state_dict",
          [](Self& self) {
            py::dict text;
            self.refuse_fed();
            if (!self.use([](T& l) { return has_no_state(l); }, kBrief))
              text["rota"] = self.use([](T& l) { return state(l); }, kIsStateBrief<T>);
            return text;
          },
          "Where the loader is; the same on all ranks. An evaluation has no state: {}, which "
          "`load_state_dict` takes.")
      .def(
          "load_state_dict",
          [](Self& self, py::handle given) {
            const bool is_empty = PyObject_IsTrue(given.ptr()) == 0;
            if (is_empty && self.use([](T& l) { return has_no_state(l); })) return;
            self.use([text = state_text(given)](T& l) { restore(l, text); });
          },
          py::arg("state"),
          "Goes to where `state` says, in any world. MismatchError, with both values, for another dataset or "
          "order.")
      .def("_save_to", [](Self& self, Snapshot& to,
                          const std::string& name) { self.use([&](T& l) { save(l, to, name); }); })
      .def("_restore_from", [](Self& self, const PyCheckpoint& from, const std::string& name) {
        self.use([&](T& l) { restore(l, *from.checkpoint, name); });
      });
}

// The class of loaders `T`, but for how they are made and what they alone have.
template <typename T>
py::class_<OneThread<T>> define_loader_class(py::module_& module, const char* type) {
  using Self = OneThread<T>;
  py::class_<Self> made(module, type);
  made.def("next", &next_of<T>)
      .def("__next__",
           [](Self& self) {
             auto batch = next_of<T>(self);
             if (!batch) throw py::stop_iteration();
             return std::move(*batch);
           })
      .def("__iter__", &begin_for<T>)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__",
           [](Self& self, py::handle raised, const py::args& /*value, traceback*/) {
             const bool ends_program =
                 !raised.is_none() &&
                 (PyErr_GivenExceptionMatches(raised.ptr(), PyExc_KeyboardInterrupt) != 0 ||
                  PyErr_GivenExceptionMatches(raised.ptr(), PyExc_SystemExit) != 0);
             ends_program ? self.close_within(std::chrono::seconds(1)) : self.close();
           })
      .def_property_readonly("position", in_turn(&T::position, kBrief), "Behind the last batch handed out.")
      .def_property_readonly("world", in_turn(&T::world, kBrief),
                             "This process among those that share the data.")
      .def_property_readonly(
          "fingerprint", [](Self& self) { return to_string(self.use([](T& l) { return l.fingerprint(); })); },
          "What the dataset is known by: a state of another one is refused.")
      .def_property_readonly(
          "global_batch_size",
          [](Self& self) { return self.use([](T& l) { return l.options().global_batch_size; }, kBrief); },
          "Samples of all ranks in a step.")
      .def_property_readonly(
          "stats", in_turn(&T::stats, kBrief),
          "Since the loader was made: counts of batches, samples and bytes; how long `next` "
          "waited, the loop took, and each worker read and transformed, as count, seconds, "
          "p50, p99 and p999; what was waited for the longest of late.")
      .def("_stats_now", [](Self& self) { return KeptStats{self.use([](T& l) { return l.stats(); })}; })
      .def("close", &Self::close, "Ends the workers, and frees what they have read. Batches in hand stay.")
      .def("_close_within",
           [](Self& self, py::handle seconds) {
             self.close_within(take<std::chrono::milliseconds>(seconds, {"close a loader", "the limit"}));
           })
      .def_property_readonly("_is_made", &Self::is_made)
      .def_property_readonly("is_closed", &Self::is_closed, "Whether `close` was called.");
  define_states<T>(made);
  return made;
}

// ---- loaders of samples ----

using PyLoader = OneThread<Loader>;
using LoaderClass = py::class_<PyLoader>;

std::optional<BatchSlot> when(PyLoader& self, py::handle id, py::handle epoch) {
  const SampleId sample{take<std::int64_t>(id, {"look up a sample", "id"})};
  const auto of = take<std::int64_t>(epoch, {"look up a sample", "epoch"});
  return self.use([&](Loader& l) { return l.when(sample, of); }, kBrief);
}

// A communicator; none, where it is a world.
std::shared_ptr<const Communicator> ranks_at(py::handle place) {
  return py::isinstance<PyCommunicator>(place) ? place.cast<const PyCommunicator&>().get() : nullptr;
}
World world_at(py::handle place) { return take<World>(place, {"place a loader", "world"}); }

std::unique_ptr<PyLoader> make_loader_at(py::handle data, const LoaderOptions& options, py::handle place) {
  const auto ranks = ranks_at(place);
  const auto of = [&](const auto& given) {
    return ranks ? make_with<Loader>(ranks, given, options)
                 : make_loader<Loader>(nullptr, given, options, world_at(place));
  };
  return py::isinstance<PySource>(data) ? of(data.cast<const PySource&>().source) : of(to_mixture(data));
}

// Of a mixture.
void define_datasets(LoaderClass& loader) {
  loader
      .def_property_readonly(
          "names", [](PyLoader& self) { return self.use([](Loader& l) { return l.names(); }, kBrief); },
          "Of a mixture's datasets, by the numbers that batches have, with those that were left out; [] "
          "without.")
      .def(
          "first_id",
          [](PyLoader& self, py::handle dataset) {
            const auto number = take<std::int64_t>(dataset, {"look up a dataset", "its number"});
            return self.use([&](Loader& l) { return l.first_id(number).value; });
          },
          py::arg("dataset"),
          "The id of the first sample of a mixture's dataset: ids number all of them, dataset by dataset.");
}

void define_loader(py::module_& module) {
  LoaderClass loader = define_loader_class<Loader>(module, "Loader");
  loader.def(py::init(&make_loader_at));
  py::class_<KeptStats>(module, "KeptStats").doc() = "Of some step, for `compare_ranks`.";
  module.def("statistics", &statistics);
  module.def("compare_ranks",
             [](const PyCommunicator& comm, const KeptStats& now, const std::optional<KeptStats>& before) {
               const auto ranks = comm.get();
               return to_python(unlocked(
                   [&] { return compare_ranks(*ranks, now.stats, before ? before->stats : LoaderStats{}); }));
             });
  module.def("check_mixture", [](py::handle mixture) { static_cast<void>(to_mixture(mixture)); });
  define_steps(loader);
  define_changes(loader);
  define_datasets(loader);
  loader
      .def_property_readonly(
          "_run", [](PyLoader& self) { return PyRun{self.use([](Loader& l) { return l.run(); }, kBrief)}; })
      .def_property_readonly("_made_ledger",
                             [](PyLoader& self) {
                               return self.use([](Loader& l) {
                                 return PyLedger{internal::Behind::of(l).shared_settling, l.options().seed};
                               });
                             })
      .def("_merge",
           [](PyLoader& self, const PyCommunicator& comm) {
             self.use([ranks = comm.get()](Loader& l) { l.merge(*ranks); });
           })
      .def("_described",
           [](PyLoader& self) {
             return self.use([](Loader& l) { return internal::Behind::of(l).described(); });
           })
      .def("when", &when, py::arg("id"), py::arg("epoch"),
           "The step, rank and slot in which sample `id` is read in `epoch`; None where it never is.")
      .def("_rescale",
           [](PyLoader& self, py::handle place) {
             const auto ranks = ranks_at(place);
             const World world = ranks ? World() : world_at(place);
             self.use([&](Loader& l) { ranks ? l.rescale(*ranks) : l.rescale(world); });
           })
      .def("warm_up", in_turn(&Loader::warm_up),
           "Opens what the first batch needs, and waits for it: so that a job does not wait in its first "
           "step.")
      .def_property_readonly(
          "skipped", [](PyLoader& self) { return self.use([](Loader& l) { return l.skipped().samples; }); },
          "The first bad samples that were skipped, of all ranks.")
      .def_property_readonly(
          "skipped_count",
          [](PyLoader& self) { return self.use([](Loader& l) { return l.skipped().count; }); },
          "All that were skipped, of all ranks.")
      .def_property_readonly("_is_evaluation", [](PyLoader& self) {
        return self.use([](Loader& l) { return l.options().evaluation; });
      });
}

// ---- loaders of streams ----

// Of a `rota.Dispatch`, of whose stream there is a source, or None.
Dispatch to_dispatch(py::handle given) {
  using py::literals::operator""_a;
  Dispatch dispatch = kDispatchOptions.parse(
      py::dict("shards"_a = given.attr("shards"), "rank_split"_a = given.attr("rank_split")));
  const py::object stream = given.attr("stream");
  if (!stream.is_none()) dispatch.source = stream.cast<const PyStreamSource&>().source;
  return dispatch;
}

using PyStreamLoader = OneThread<StreamLoader>;

// `place` is a communicator; or a function that returns it when the loader is used first.
std::unique_ptr<PyStreamLoader> make_stream_loader(const py::object& data, const StreamLoaderOptions& options,
                                                   const py::object& place) {
  const auto make = [=](const py::object& comm) {
    const auto ranks = comm.cast<const PyCommunicator&>().get();
    if (!py::isinstance<PyStreamSource>(data))
      return make_with<StreamLoader>(ranks, to_dispatch(data), options);
    return make_with<StreamLoader>(ranks, data.cast<const PyStreamSource&>().source, options);
  };
  if (py::isinstance<PyCommunicator>(place)) return make(place);
  return std::make_unique<PyStreamLoader>("a loader", [=] { return make(place()); });
}

void define_stream_loader(py::module_& module) {
  module.def("check_dispatch", [](py::handle dispatch) { static_cast<void>(to_dispatch(dispatch)); });
  define_loader_class<StreamLoader>(module, "StreamLoader")
      .def(py::init(&make_stream_loader))
      .def_property_readonly(
          "_made_ledger",
          [](PyStreamLoader& self) {
            return self.use([](StreamLoader& l) { return PyLedger{internal::Behind::of(l).settling()}; },
                            kBrief);
          })
      .def("merge", in_turn(&StreamLoader::merge),
           "What was given up on any rank is handed out next, in batches that are no steps. **Collective.**");
}

// ---- traces, which the GIL guards ----

template <typename Loader>
void define_for(py::class_<TraceWriter>& trace) {
  trace
      .def(py::init([](const std::filesystem::path& directory, OneThread<Loader>& loader,
                       const PyCommunicator* comm, std::optional<std::int64_t> phase) {
        const auto ranks = comm == nullptr ? nullptr : comm->get();
        return loader.use([&](Loader& l) {
          return ranks ? std::make_unique<TraceWriter>(*ranks, directory, l, phase)
                       : std::make_unique<TraceWriter>(directory, l, phase);
        });
      }))
      .def("_end", [](TraceWriter& self, OneThread<Loader>& loader) {
        loader.use([&](Loader& l) {
          const py::gil_scoped_acquire gil;
          self.end(l);
        });
      });
}

void define_traces(py::module_& module) {
  py::class_<TraceWriter> trace(module, "TraceWriter");
  define_for<Loader>(trace);
  define_for<StreamLoader>(trace);
  trace.def("write", &TraceWriter::write, py::arg("batch"), "Adds a batch of the loader; also an empty one.")
      .def_property_readonly("phase", &TraceWriter::phase, "Its number.");
}

}  // namespace

void define_loaders(py::module_& module) {
  define_loader(module);
  define_stream_loader(module);
  define_traces(module);
}

}  // namespace rota::python
