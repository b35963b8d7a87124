#pragma once

// Python's lock, for threads of C++, and for those of Python in calls of rota.

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace rota::python {

namespace py = pybind11;

/// What `work` returns. Where Python has ended, it ends a thread that asks for the GIL, by unwinding it: such
/// a thread waits here for ever instead, and nobody waits for it. This is to be as close as can be to what
/// asks: what is destroyed on the way would need the GIL, and aborts the process where it is noexcept.
template <typename Work>
auto unless_python_ends(const Work& work) {
  try {
    return work();
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

/// The GIL, for any thread. One of C++ gets a thread state of Python that lasts as long as the thread: to
/// make one for each call costs many times what a call does.
class Gil {
 public:
  Gil();
  ~Gil() { PyGILState_Release(before_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE before_;
};
/// What `work` returns, done with the GIL, on any thread.
template <typename Work>
auto with_gil(const Work& work) {
  const Gil gil;
  return unless_python_ends(work);
}
/// The same, of what may be dropped at any time; nothing where it went with Python.
template <typename Work>
void while_python_lasts(const Work& work) {
  if (Py_IsInitialized() != 0) with_gil(work);
}

/// While it lives, this thread has no GIL.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    unless_python_ends([&] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// What a function of Python's C interface made. Throws what it raised.
template <typename T = py::object>
T unless_raised(PyObject* made) {
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<T>(made);
}
/// What a function of a user's returns, or one that leads to it.
template <typename... Arguments>
py::object call_function(const py::object& function, const Arguments&... arguments) {
  const py::tuple given = py::make_tuple(arguments...);
  return unless_raised(unless_python_ends([&] { return PyObject_CallObject(function.ptr(), given.ptr()); }));
}
/// The next of a user's iterator; null behind the last.
py::object next_item(const py::object& iterator);

}  // namespace rota::python
