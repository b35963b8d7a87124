#pragma once

// What the loaders of samples and of streams share.

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "arrays.hpp"
#include "checkpoint.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "one_thread.hpp"
#include "rota/error.hpp"
#include "rota/loader_options.hpp"
#include "rota/resume.hpp"
#include "rota/stream_loader.hpp"
#include "values.hpp"

namespace rota::python {

/// Makes a loader of `arguments`, without the GIL.
template <typename T, typename... Arguments>
std::unique_ptr<OneThread<T>> make_loader(bool needs_mpi, const Arguments&... arguments) {
  const Unlocked unlocked;
  return std::make_unique<OneThread<T>>("a loader", std::make_shared<T>(arguments...), needs_mpi);
}

/// With the ranks of `comm`.
template <typename T, typename... Arguments>
std::unique_ptr<OneThread<T>> make_with(const PyCommunicator& comm, const Arguments&... arguments) {
  const auto ranks = comm.get();
  return make_loader<T>(mpi::needs_mpi(*ranks), *ranks, arguments...);
}

/// The text in what `state_dict` returned. Throws Error{invalid_argument} for anything else.
std::string state_text(py::handle state);

/// Whether it begins anew in each `for`.
inline bool has_no_state(const Loader& loader) { return loader.options().evaluation; }
inline bool has_no_state(const StreamLoader& /*loader*/) { return false; }

/// What Python's `next` of a loader does, and `__next__`.
template <typename T>
std::optional<Batch> next_of(OneThread<T>& self) {
  auto batch = self.use([](T& loader) { return loader.next(); });
  return batch ? std::optional(std::move(*batch)) : std::nullopt;
}

/// The class of loaders `T`, but for how they are made and what they alone have.
template <typename T>
py::class_<OneThread<T>> define_loader_class(py::module_& module, const char* type) {
  using Self = OneThread<T>;
  py::class_<Self> made(module, type);
  made.def("next", &next_of<T>,
           "The next batch, or None after the last epoch. Waits until it is read.\n\nWhat fails is raised in "
           "its "
           "batch's place. The position stays: the next call tries the same batch again.")
      .def("__next__",
           [](Self& self) {
             auto batch = next_of<T>(self);
             if (!batch) throw py::stop_iteration();
             return std::move(*batch);
           })
      .def("__iter__", [](py::object self) { return self; })
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Self& self, const py::args&) { self.close(); })
      .def_property_readonly("position", in_turn(&T::position), "Behind the last batch handed out.")
      .def(
          "state_dict",
          [](Self& self) {
            py::dict text;
            if (!self.use([](T& l) { return has_no_state(l); }))
              text["rota"] = self.use([](T& l) { return state(l); });
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
      .def("_save_to", [](Self& self, PySnapshot& to,
                          const std::string& name) { self.use([&](T& l) { save(l, to.snapshot, name); }); })
      .def("_restore_from",
           [](Self& self, const PyCheckpoint& from, const std::string& name) {
             self.use([&](T& l) { restore(l, *from.checkpoint, name); });
           })
      .def_property_readonly("world", in_turn(&T::world), "This process among those that share the data.")
      .def_property_readonly(
          "fingerprint", [](Self& self) { return to_string(self.use([](T& l) { return l.fingerprint(); })); },
          "What the dataset is known by: a state of another one is refused.")
      .def_property_readonly(
          "global_batch_size",
          [](Self& self) { return self.use([](T& l) { return l.options().global_batch_size; }); },
          "Samples of all ranks in a step.")
      .def_property_readonly(
          "stats", in_turn(&T::stats),
          "Counts since the loader was made: batches, samples, bytes, seconds that `next` waited, and of "
          "each worker.")
      .def("close", &Self::close, "Ends the workers, and frees what they have read. Batches in hand stay.")
      .def_property_readonly("is_closed", &Self::is_closed, "Whether `close` was called.");
  return made;
}

}  // namespace rota::python
