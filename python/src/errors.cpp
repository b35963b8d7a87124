#include "errors.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <unordered_set>
#include <vector>

#include "core/caught.hpp"

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

std::atomic<bool> has_python_ended = false;
std::atomic<std::uint64_t> main_thread = 0;

struct Dead {
  std::mutex mutex;
  std::vector<std::shared_ptr<const void>> objects;

  static Dead& all() {
    static auto* const dead = new Dead;
    return *dead;
  }
};

// Under the GIL.
std::unordered_set<py::object*>& all_shared() {
  static auto* const all = new std::unordered_set<py::object*>;  // never dies: Python may have ended by then
  return *all;
}

// What ended a wait of Python's.
struct Interrupted : internal::Stopped {
  // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is kept
  explicit Interrupted(std::exception_ptr raised) : error(std::move(raised)) {}
  std::exception_ptr error;
};

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

thread_local int InCallback::depth = 0;

Shared::Shared(py::handle object)
    : object_(new py::object(py::reinterpret_borrow<py::object>(object)), [](py::object* shared) {
        if (Py_IsInitialized() == 0) return;  // it went with Python
        const py::gil_scoped_acquire gil;
        all_shared().erase(shared);
        delete shared;
      }) {
  all_shared().insert(object_.get());
}

TurnGivenUp::TurnGivenUp() {
  static const py::handle turn = py::object(py::module_::import("rota._datasets").attr("TURN")).release();
  if (!turn.attr("_is_owned")().cast<bool>()) return;
  depth_ = turn.attr("_release_save")();
  turn_ = py::reinterpret_borrow<py::object>(turn);
}

TurnGivenUp::~TurnGivenUp() {
  if (turn_) Py_XDECREF(PyObject_CallMethod(turn_.ptr(), "_acquire_restore", "(O)", depth_.ptr()));
}

py::object Shared::operator*() const {
  if (is_there()) return *object_;
  throw Error(ErrorCode::busy, "use an object of Python: Python ends");
}

void drop_shared() {
  std::vector<py::object> dropped;  // what they do when they die may make others
  for (py::object* const object : all_shared()) dropped.push_back(std::exchange(*object, py::object()));
}

void die_later(std::shared_ptr<const void> object) {
  const std::scoped_lock lock(Dead::all().mutex);
  Dead::all().objects.push_back(std::move(object));
}

void bury_the_dead() {
  if (InCallback::is_open()) return;
  std::vector<std::shared_ptr<const void>> objects;
  const std::scoped_lock lock(Dead::all().mutex);
  objects.swap(Dead::all().objects);
}

void check_signals() try {
  if (has_python_ended) throw Error(ErrorCode::busy, "wait: Python ends");
  if (PyThread_get_thread_ident() != main_thread) return;  // Python attends to signals there alone
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
} catch (...) {
  throw Interrupted(std::current_exception());
}

void refuse_fed(std::uint64_t drawer) {
  if (drawer == 0 || drawer == main_thread || drawer == PyThread_get_thread_ident()) return;
  throw Error(ErrorCode::invalid_argument,
              "save the state of a loader: a thread draws its batches ahead of the loop, so that it has some "
              "that were not trained; save in that thread, or let the loop draw");
}

bool python_has_ended() noexcept { return has_python_ended; }

void end_waits() {
  has_python_ended = true;
  const py::gil_scoped_release released;
  bury_the_dead();
}

void register_errors() {
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<std::uint64_t>();
  py::module_::import("os").attr("register_at_fork")(
      py::arg("after_in_child") = py::cpp_function([] { main_thread = PyThread_get_thread_ident(); }));
  py::register_exception_translator([](std::exception_ptr raised) {
    try {
      try {
        std::rethrow_exception(std::move(raised));
      } catch (const Interrupted& stopped) {
        std::rethrow_exception(stopped.error);  // one of Python's own goes on to the next translator
      }
    } catch (const Error& error) {
      const bool is_end = has_python_ended && PyThread_get_thread_ident() != main_thread;
      is_end ? PyErr_SetNone(PyExc_SystemExit) : raise(error);  // which ends a daemon thread without a word
    }
  });
}

void keep_thread_state() {
  struct Kept {
    PyThreadState* state = nullptr;
    Kept() {
      if (PyGILState_GetThisThreadState() != nullptr) return;
      PyGILState_Ensure();
      state = PyEval_SaveThread();
    }
    ~Kept() {
      if (state == nullptr || Py_IsInitialized() == 0) return;
      PyEval_RestoreThread(state);
      PyGILState_Release(PyGILState_UNLOCKED);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
  };
  thread_local const Kept kept;
  static_cast<void>(kept);
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
