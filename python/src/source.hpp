#pragma once

// Sources of samples, as Python sees them.

#include <pybind11/pybind11.h>

#include <memory>

#include "errors.hpp"
#include "rota/source.hpp"
#include "rota/stream.hpp"

namespace rota::python {

namespace py = pybind11;

/// A source, and how to make it again in another process, which Python sets. That is no attribute of a
/// dictionary: pybind11 2.10 does not hide objects with one from the collector while they die.
struct PySource {
  std::shared_ptr<const Source> source;
  Shared recipe = {};  // of none, where it is made without the GIL
};

/// A source of streams: a user's own, or one that is made of others.
struct PyStreamSource {
  std::shared_ptr<const StreamSource> source;
};

/// What is to die without the GIL: it may wait for threads that want it. Where it dies inside of a callback,
/// as when garbage is collected there, such a thread may be this one: it dies later (`bury_the_dead`).
template <typename T>
std::shared_ptr<T> dies_without_gil(std::shared_ptr<T> object) {
  T* const pointer = object.get();
  return {pointer, [object = std::move(object)](T*) mutable {
            if (InCallback::is_open()) return die_later(std::move(object));
            if (PyGILState_Check() == 0) return object.reset();
            const py::gil_scoped_release released;
            object.reset();
          }};
}

/// What a dataset of `size` samples is known by: `text` itself, where it is a fingerprint's 32 digits.
Fingerprint to_fingerprint(const std::string& text, std::int64_t size);

void define_sources(py::module_& module);
void define_python_source(py::module_& module);
void define_catalogs(py::module_& module);
void define_loader(py::module_& module);
void define_streams(py::module_& module);
void define_python_stream(py::module_& module);
void define_stream_loader(py::module_& module);
void define_traces(py::module_& module);

}  // namespace rota::python
