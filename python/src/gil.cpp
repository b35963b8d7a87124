#include "gil.hpp"

namespace rota::python {
namespace {

// Of a thread of C++, until the thread ends.
class ThreadState {
 public:
  ThreadState() {
    if (PyGILState_GetThisThreadState() != nullptr) return;
    PyGILState_Ensure();
    made_ = PyEval_SaveThread();
  }
  ~ThreadState() {
    if (made_ == nullptr || Py_IsInitialized() == 0) return;
    unless_python_ends([&] {
      PyEval_RestoreThread(made_);
      PyGILState_Release(PyGILState_UNLOCKED);  // drops what the thread kept, such as files
    });
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  PyThreadState* made_ = nullptr;
};

}  // namespace

Gil::Gil()
    : before_(unless_python_ends([] {
        thread_local const ThreadState kept;
        static_cast<void>(kept);
        return PyGILState_Ensure();
      })) {}

py::object next_item(const py::object& iterator) {
  auto next =
      py::reinterpret_steal<py::object>(unless_python_ends([&] { return PyIter_Next(iterator.ptr()); }));
  if (!next && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return next;
}

}  // namespace rota::python
