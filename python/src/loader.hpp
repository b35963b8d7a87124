#pragma once

// What the loaders of samples and of streams share.

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
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

namespace rota::python {

/// The value of option `name`. Of a number no fraction is cut.
template <typename T>
T value_of(py::handle value, const char* name) {
  constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  try {
    if constexpr (is_number) return as_integer(value).cast<T>();
    return value.cast<T>();
  } catch (const py::cast_error&) {
    const auto why = fmt::format("make a loader: {} cannot be {}", name, py::repr(value).cast<std::string>());
    if (!is_number || PyLong_Check(value.ptr()) == 0) throw py::type_error(why);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}; it must be a number of {} bits{}", why, 8 * sizeof(T),
                            std::is_unsigned_v<T> ? ", 0 or more" : ""));
  }
}
/// An option by its name; Python's side has all of them.
template <typename T>
T option(const py::dict& options, const char* name) {
  return value_of<T>(options[name], name);
}
std::chrono::milliseconds seconds(const py::dict& options, const char* name);

py::dict dict_of(const LoaderStats& stats);
py::object object_of(const Position& at);

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

/// The class of loaders `T`, but for how they are made and what they alone have.
template <typename T>
py::class_<OneThread<T>> define_loader_class(py::module_& module, const char* type) {
  using Self = OneThread<T>;
  py::class_<Self> made(module, type);
  made.def("_next",
           [](Self& self) -> std::optional<Batch> {
             auto batch = self.use([](T& loader) { return loader.next(); });
             if (!batch) return std::nullopt;
             return std::move(*batch);
           })
      .def_property_readonly(
          "position", [](Self& self) { return object_of(self.use([](T& l) { return l.position(); })); })
      .def("_state", [](Self& self) { return self.use([](T& l) { return state(l); }); })
      .def("_restore", [](Self& self, const std::string& text) { self.use([&](T& l) { restore(l, text); }); })
      .def("_save_to", [](Self& self, PySnapshot& to,
                          const std::string& name) { self.use([&](T& l) { save(l, to.snapshot, name); }); })
      .def("_restore_from",
           [](Self& self, const PyCheckpoint& from, const std::string& name) {
             self.use([&](T& l) { restore(l, *from.checkpoint, name); });
           })
      .def("_world", [](Self& self) { return object_of(self.use([](T& l) { return l.world(); })); })
      .def("_fingerprint",
           [](Self& self) { return to_string(self.use([](T& l) { return l.fingerprint(); })); })
      .def("_fields",
           [](Self& self) { return to_python(self.use([](T& l) { return l.source().fields(); })); })
      .def("_stats", [](Self& self) { return dict_of(self.use([](T& l) { return l.stats(); })); })
      .def("_close", &Self::close)
      .def("_is_closed", &Self::is_closed);
  return made;
}

}  // namespace rota::python
