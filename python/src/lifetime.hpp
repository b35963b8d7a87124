#pragma once

// What dies when, and where: objects that C++ and Python share, and threads that are in both. All of it is
// here, but for what Python calls as it ends, in this order: `_end` of rota/_torch_ranks.py, `close_all` of
// rota/_checkpoint.py and of rota/_loader.py (see rota/__init__.py), and drop_shared.
//
//  an object         | of Python's, that C++ holds          | of C++'s, that Python holds, and that may
//                    | (dies_with_gil, Shared)              | wait for the GIL (dies_without_gil)
//  dies on a thread  | with the GIL, which it takes         | without the GIL
//   in a callback    | the same                             | later: who waits may be this very thread
//  as Python ends    | is dropped, and whoever uses it is   | what was to die later dies (end_waits)
//                    | told so (Error{busy}), if Shared     |
//  after that        | not at all: it went with Python      | as it is; it finds no Python to call
//  in a forked child | as in the parent                     | the same; what has threads knows its process
//
//  a thread          | of C++'s, in a user's function       | of Python's, in a call of rota's (Unlocked)
//                    | (call_python)                        |
//  Ctrl-C            | goes on                              | KeyboardInterrupt, in the main thread
//  as Python ends    | close_all waits for it a while       | Error{busy}, but SystemExit in other threads
//  after that        | who asks for the GIL waits for ever, and nobody for it; a new call: Error{busy}
//  in a forked child | is not there                         | the one that forked is the main one
//
// With Python 3.13 goes what makes threads wait for ever (the end of lifetime.cpp, and --wrap in
// CMakeLists.txt): from 3.14 on Python does so by itself, and does not unwind them.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "core/wait.hpp"
#include "errors.hpp"
#include "rota/error.hpp"

namespace rota::python {

/// Does `work` with the GIL; or not, and returns false, where Python has ended.
template <typename Work>
bool with_gil(const Work& work) {
  if (Py_IsInitialized() == 0) return false;
  const py::gil_scoped_acquire gil;
  work();
  return true;
}

/// What has objects of Python, and may be dropped on any thread.
template <typename T>
std::shared_ptr<T> dies_with_gil(std::unique_ptr<T> object) {
  return {object.release(), [](T* dead) { with_gil([&] { delete dead; }); }};
}

/// An object of Python that C++ holds, and may drop on any thread. Python's collector does not see that:
/// where it leads to a script's globals, these would never die, and their files would not be written. So all
/// are dropped when Python ends. Made and used with the GIL.
class Shared {
 public:
  Shared() = default;
  explicit Shared(py::handle object);
  [[nodiscard]] bool is_there() const { return object_ && *object_; }
  /// The object, which so outlives that it is dropped meanwhile. Throws Error{busy} where it was dropped.
  [[nodiscard]] py::object operator*() const;

 private:
  std::shared_ptr<py::object> object_;
};

/// As the table says. `bury_the_dead` is for a thread that is in no callback, without the GIL.
void die_without_gil(std::shared_ptr<const void> object);
void bury_the_dead();
template <typename T>
std::shared_ptr<T> dies_without_gil(std::shared_ptr<T> object) {
  T* const pointer = object.get();
  return {pointer, [object = std::move(object)](T*) mutable { die_without_gil(std::move(object)); }};
}

/// Gives this thread of C++'s a thread state of Python that lasts as long as the thread: to make one for each
/// call costs many times what a call does. Throws Error{busy} where Python has ended.
void keep_thread_state();

/// While it lives, this thread is in a user's Python code that rota has called.
class InCallback {
 public:
  InCallback() noexcept { ++depth; }
  ~InCallback() { --depth; }
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
  [[nodiscard]] static bool is_open() noexcept { return depth > 0; }

 private:
  static thread_local int depth;
};

/// Calls a user's Python code, from any thread. Throws as `keep_thread_state` and `throw_as_error`.
template <typename Work>
auto call_python(const Work& work) {
  keep_thread_state();
  const py::gil_scoped_acquire gil;
  const InCallback scope;
  try {
    return work();
  } catch (const py::error_already_set& raised) {
    throw_as_error(raised);
  }
}

/// What ended a wait of Python's, and its translator raises.
struct Interrupted : internal::Stopped {
  // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is kept
  explicit Interrupted(std::exception_ptr raised) : error(std::move(raised)) {}
  std::exception_ptr error;
};
/// Ends waits with what a signal's handler raises (KeyboardInterrupt), and with Error{busy} once Python ends.
void check_signals();
/// While it lives, this thread has no GIL, and Ctrl-C ends what it waits for.
class Unlocked {
  py::gil_scoped_release released_;
  internal::WaitScope interruptible_{internal::Wait(&check_signals)};
};
/// What `work` returns, done so.
template <typename Work>
auto unlocked(const Work& work) {
  const Unlocked scope;
  return work();
}

/// While it lives, a thread that is in a dataset, and waits for a loader there, lets others have their turn
/// in theirs (`rota._datasets.TURN`). With the GIL.
class TurnGivenUp {
 public:
  TurnGivenUp();
  ~TurnGivenUp();
  TurnGivenUp(const TurnGivenUp&) = delete;
  TurnGivenUp& operator=(const TurnGivenUp&) = delete;

 private:
  py::object turn_;   // none, where this thread had it not
  py::object depth_;  // how often
};

/// Of a thread, as Python numbers them.
[[nodiscard]] bool is_main_thread(std::uint64_t number = PyThread_get_thread_ident()) noexcept;
/// Python ends: no wait goes on.
[[nodiscard]] bool python_has_ended() noexcept;

/// What Python calls as it ends, and after a fork.
void define_lifetime(py::module_& module);

}  // namespace rota::python
