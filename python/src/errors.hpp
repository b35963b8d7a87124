#pragma once

// rota's errors as Python's, and those of Python code as rota's.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/wait.hpp"
#include "rota/error.hpp"

namespace rota::python {

namespace py = pybind11;

/// What a function of Python's C interface made. Throws what it raised.
template <typename T = py::object>
T unless_raised(PyObject* made) {
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<T>(made);
}

/// Text of files and errors, which may be no UTF-8: other bytes are shown as in "\\xff".
py::str to_text(std::string_view text, const char* others = "backslashreplace");
/// A field's name, of UTF-8 in any locale; other bytes as os.fsdecode would have them.
inline py::str to_name(std::string_view name) { return to_text(name, "surrogateescape"); }
/// A file's name as os.fsdecode has it, whatever its bytes are.
py::str to_file_name(std::string_view path);

/// The bytes of such a name. Throws py::error_already_set.
std::string bytes_of_name(py::handle name);

/// The name of the class of `value`.
std::string type_of(py::handle value);

/// Throws Error{callback}.
[[noreturn]] void refuse(const std::string& why);

/// What a rank fails at, for the others to hear: code and message. The rank itself raises its own exception.
using Failure = std::optional<std::pair<std::string, std::string>>;
void throw_if(const Failure& failure);

/// From now on an Error raises the class of `rota._errors` that its code has. Where Python code failed first,
/// that exception is the new one's `__cause__`; one that ends a program (KeyboardInterrupt) is raised itself.
void register_errors();

/// What was raised, as "ValueError: its message".
std::string text_of(const py::error_already_set& raised);

/// Throws what Python code raised as an Error: one of rota's by its code, OSError as Error{io}, or, without a
/// number, as `numberless`, MemoryError as std::bad_alloc, TypeError and its like as ProgramError, all else
/// as `other`. What rota's own Python code refuses (`rota._errors.Refusal`) has no cause. Needs the GIL.
[[noreturn]] void throw_as_error(const py::error_already_set& raised, ErrorCode numberless = ErrorCode::io,
                                 ErrorCode other = ErrorCode::callback);

/// Gives this thread of C++ a thread state of Python that lasts as long as the thread: to make one for each
/// call costs many times what a call does.
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
void drop_shared();

/// Keeps what dies inside of a callback, until a thread that is in none calls the other, without the GIL.
void die_later(std::shared_ptr<const void> object);
void bury_the_dead();

/// Calls a user's Python code, from any thread. Throws Error{busy} where Python has ended.
template <typename Work>
auto call_python(const Work& work) {
  if (Py_IsInitialized() == 0) throw Error(ErrorCode::busy, "call a function of Python: Python has ended");
  keep_thread_state();
  const py::gil_scoped_acquire gil;
  const InCallback scope;
  try {
    return work();
  } catch (const py::error_already_set& raised) {
    throw_as_error(raised);
  }
}

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
/// Throws Error{invalid_argument} where a thread beside the main one draws batches for this one: those may be
/// ahead of what was trained.
void refuse_fed(std::uint64_t drawer);
/// Python ends: no wait goes on.
void end_waits();
[[nodiscard]] bool python_has_ended() noexcept;

}  // namespace rota::python
