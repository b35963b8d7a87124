#pragma once

// rota's errors as Python's, and those of Python code as rota's.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

/// Throws Error{invalid_argument} where a thread beside the main one draws batches for this one: those may be
/// ahead of what was trained.
void refuse_fed(std::uint64_t drawer);

}  // namespace rota::python
