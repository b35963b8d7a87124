#pragma once

// Python functions as rota's: transforms, collates, allocators.

#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "rota/catalog.hpp"
#include "rota/stream.hpp"
#include "rota/transform.hpp"

namespace rota::python {

/// What holds objects of Python, and C++ may drop on any thread.
template <typename T>
std::shared_ptr<T> share_many(T object) {
  return {new T(std::move(object)), [](T* shared) {
            if (Py_IsInitialized() == 0) return;  // it went with Python
            const py::gil_scoped_acquire gil;
            delete shared;
          }};
}

/// The owner of arrays over memory that is used again after a call. It owns nothing: its count tells whether
/// anybody kept one. Needs the GIL.
class Guard {
 public:
  Guard();
  /// Does `work`, which calls a function of Python with views that are of owner(). Throws Error{callback}
  /// where one was kept; or what the function raised, whose tracebacks drop them. `whose` names it.
  template <typename Work>
  void lend(const char* whose, const Work& work) const {
    try {
      work();
    } catch (const py::error_already_set& raised) {
      clear_frames(raised);
      if (is_alone()) throw;
      refuse_both(whose, raised);
    }
    require_alone(whose);
  }

  [[nodiscard]] py::handle owner() const { return capsule_; }

 private:
  void clear_frames(const py::error_already_set& raised) const;
  [[nodiscard]] bool is_alone() const { return capsule_.ref_count() == 1; }
  void require_alone(const char* whose) const;
  [[noreturn]] static void refuse_both(const char* whose, const py::error_already_set& raised);

  py::capsule capsule_;
};

/// The array of one sample's field, of `rows` rows where it is ragged.
py::array sample_view(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner);

/// `function(sample)` with a `rota.Sample`. What it returns, or has changed in place, is the sample. Throws
/// Error{callback} where it kept a view of the memory, which is used again.
Transform to_transform(py::object function, std::vector<Field> fields);

/// `function(batch)` with a mapping of names to arrays, which returns one of the same kind.
Collate to_collate(py::object function, std::vector<Field> fields);

/// Tells a function of Python, unless it is None, how far a task is; and lets Ctrl-C end the task.
ProgressFunction to_progress(py::object function);

/// Calls it with each message of the process.
void send_messages_to(py::function function);

/// An object with `allocate(bytes) -> address` and `release(address, bytes)`.
Allocator to_allocator(py::object allocator);

/// Fills one sample at a time with what Python code returned: a mapping, or a tuple in the fields' order, or
/// the value of the only field. Throws Error{callback} naming the field, and `what`.
class SampleItems {
 public:
  SampleItems(std::vector<Field> fields, std::string what)
      : fields_(std::move(fields)), what_(std::move(what)) {}
  /// An array for each field. Needs the GIL.
  [[nodiscard]] std::vector<py::array> take(py::handle returned) const;
  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }

 private:
  std::vector<Field> fields_;
  std::string what_;
};

/// Makes `out` of it. Needs the GIL.
void put(const SampleItems& items, py::handle returned, StreamSample& out);

}  // namespace rota::python
