#include "lifetime.hpp"

#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace rota::python {
namespace {

std::atomic<bool> has_python_ended = false;
std::atomic<std::uint64_t> main_thread = 0;

// What is to die later. The last ones die with Python.
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

struct Held : py::object {
  explicit Held(py::handle held) : py::object(held, borrowed_t()) { all_shared().insert(this); }
  ~Held() { all_shared().erase(this); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
};

void drop_shared() {
  std::vector<py::object> dropped;  // what they do when they die may make others
  for (py::object* const object : all_shared()) dropped.push_back(std::exchange(*object, py::object()));
}

void end_waits() {
  has_python_ended = true;
  const py::gil_scoped_release released;
  bury_the_dead();
}

}  // namespace

Shared::Shared(py::handle object) : object_(dies_with_gil(std::make_unique<Held>(object))) {}

py::object Shared::operator*() const {
  if (is_there()) return *object_;
  throw Error(ErrorCode::busy, "use an object of Python: Python ends");
}

void die_without_gil(std::shared_ptr<const void> object) {
  if (InCallback::is_open()) {
    const std::scoped_lock lock(Dead::all().mutex);
    return Dead::all().objects.push_back(std::move(object));
  }
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return object.reset();
  const py::gil_scoped_release released;
  object.reset();
}

void bury_the_dead() {
  if (InCallback::is_open()) return;
  std::vector<std::shared_ptr<const void>> objects;
  const std::scoped_lock lock(Dead::all().mutex);
  objects.swap(Dead::all().objects);
}

thread_local int InCallback::depth = 0;

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
  if (Py_IsInitialized() == 0) throw Error(ErrorCode::busy, "call a function of Python: Python has ended");
  thread_local const Kept kept;
  static_cast<void>(kept);
}

void check_signals() try {
  if (has_python_ended) throw Error(ErrorCode::busy, "wait: Python ends");
  if (!is_main_thread()) return;  // Python attends to signals there alone
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
} catch (...) {
  throw Interrupted(std::current_exception());
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

bool is_main_thread(std::uint64_t number) noexcept { return number == main_thread; }

bool python_has_ended() noexcept { return has_python_ended; }

void define_lifetime(py::module_& module) {
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<std::uint64_t>();
  py::module_::import("os").attr("register_at_fork")(
      py::arg("after_in_child") = py::cpp_function([] { main_thread = PyThread_get_thread_ident(); }));
  py::module_::import("atexit").attr("register")(py::cpp_function(&drop_shared));
  module.def("end_waits", &end_waits);
}

}  // namespace rota::python

// A thread that asks for Python's lock when Python has ended is unwound (pthread_exit, up to Python 3.13).
// What the frames of C++ would destroy on the way needs that lock, or aborts the process where it is
// noexcept. So the first frame of this module that is asked what it has to do in such an unwinding never
// answers: the thread waits for ever, and nobody waits for it. CMakeLists.txt lets frames ask here, instead
// of the C++ library. Frames of another module that is called by a user's function are asked before them, in
// its own way.
extern "C" {

_Unwind_Reason_Code of_the_library(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                   _Unwind_Exception* thrown,
                                   _Unwind_Context* frame) __asm__("__real___gxx_personality_v0");

[[gnu::used]] _Unwind_Reason_Code personality(int version, _Unwind_Action actions,
                                              _Unwind_Exception_Class kind, _Unwind_Exception* thrown,
                                              _Unwind_Context* frame) __asm__("__wrap___gxx_personality_v0");

_Unwind_Reason_Code personality(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                _Unwind_Exception* thrown, _Unwind_Context* frame) {
  if ((actions & _UA_FORCE_UNWIND) != 0) {
    for (;;) ::pause();
  }
  return of_the_library(version, actions, kind, thrown, frame);
}
}
