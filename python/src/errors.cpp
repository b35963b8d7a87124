#include "errors.hpp"

#include <exception>
#include <new>

#include "core/caught.hpp"
#include "lifetime.hpp"

namespace rota::python {
namespace {

py::object errors() { return py::module_::import("rota._errors"); }

// An exception of Python, as the cause of an Error: which threads carry that know nothing of Python.
struct Raised {
  Shared exception;
};

py::object cause_of(const Error& error) {
  if (!error.cause()) return py::none();
  try {
    std::rethrow_exception(error.cause());
  } catch (const Raised& raised) {
    return raised.exception.is_there() ? *raised.exception : py::none();
  } catch (...) {  // of C++
    return py::none();
  }
}

void raise(const Error& error) {
  const py::object cause = cause_of(error);
  if (!cause.is_none() && PyErr_GivenExceptionMatches(cause.ptr(), PyExc_Exception) == 0) {
    PyErr_SetObject(py::type::handle_of(cause).ptr(), cause.ptr());
    return;
  }
  const py::object made = errors().attr("BY_CODE")[py::str(to_string(error.code()))](to_text(error.what()));
  if (!cause.is_none()) PyException_SetCause(made.ptr(), cause.inc_ref().ptr());
  PyErr_SetObject(py::type::handle_of(made).ptr(), made.ptr());
}

// The code of that name; ErrorCode::callback for all else.
ErrorCode to_code(std::string_view name) noexcept {
  auto code = ErrorCode::invalid_argument;
  while (code != ErrorCode::callback && to_string(code) != name) {
    code = static_cast<ErrorCode>(static_cast<int>(code) + 1);
  }
  return code;
}

ErrorCode code_of(const py::error_already_set& raised, ErrorCode numberless, ErrorCode other) {
  if (raised.matches(errors().attr("Error"))) return to_code(raised.value().attr("code").cast<std::string>());
  if (!raised.matches(PyExc_OSError)) return other;
  return raised.value().attr("errno").is_none() ? numberless : ErrorCode::io;
}

}  // namespace

py::str to_text(std::string_view text, const char* others) {
  return unless_raised<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), others));
}

py::str to_file_name(std::string_view path) {
  return unless_raised<py::str>(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<py::ssize_t>(path.size())));
}

std::string bytes_of_name(py::handle name) {
  return unless_raised<py::bytes>(PyUnicode_AsEncodedString(py::str(name).ptr(), "utf-8", "surrogateescape"));
}

std::string type_of(py::handle value) {
  return py::str(py::type::handle_of(value).attr("__name__")).cast<std::string>();
}

void refuse(const std::string& why) { throw Error(ErrorCode::callback, why); }

void throw_if(const Failure& failure) {
  if (failure) throw Error(to_code(failure->first), failure->second);
}

void refuse_fed(std::uint64_t drawer) {
  if (drawer == 0 || is_main_thread(drawer) || drawer == PyThread_get_thread_ident()) return;
  throw Error(ErrorCode::invalid_argument,
              "save the state of a loader: a thread draws its batches ahead of the loop, so that it has some "
              "that were not trained; save in that thread, or let the loop draw");
}

void register_errors() {
  py::register_exception_translator([](std::exception_ptr raised) {
    try {
      try {
        std::rethrow_exception(std::move(raised));
      } catch (const Interrupted& stopped) {
        std::rethrow_exception(stopped.error);  // one of Python's own goes on to the next translator
      }
    } catch (const Error& error) {
      const bool is_end = python_has_ended() && !is_main_thread();
      is_end ? PyErr_SetNone(PyExc_SystemExit) : raise(error);  // which ends a daemon thread without a word
    }
  });
}

std::string text_of(const py::error_already_set& raised) {
  return errors().attr("text_of")(raised.value()).cast<std::string>();
}

void throw_as_error(const py::error_already_set& raised, ErrorCode numberless, ErrorCode other) {
  if (raised.matches(PyExc_MemoryError)) throw std::bad_alloc();
  const std::string text = text_of(raised);
  if (raised.matches(errors().attr("Refusal"))) refuse(text);
  const ErrorCode code = code_of(raised, numberless, other);
  PyException_SetTraceback(raised.value().ptr(), raised.trace() ? raised.trace().ptr() : Py_None);
  auto cause = std::make_exception_ptr(Raised{Shared(raised.value())});
  if (!raised.matches(PyExc_Exception)) {  // it ends the program, and is no fault of a sample
    throw Interrupted(std::make_exception_ptr(Error(code, text, std::move(cause))));
  }
  if (raised.matches(errors().attr("PROGRAMS")))
    throw internal::ProgramError(ErrorCode::callback, text, std::move(cause));
  throw Error(code, text, std::move(cause));
}

}  // namespace rota::python
