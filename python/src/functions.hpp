#pragma once

// Python functions as rota's: transforms, collates, allocators.

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lifetime.hpp"
#include "rota/catalog.hpp"
#include "rota/stream.hpp"
#include "rota/transform.hpp"
#include "values.hpp"

namespace rota::python {

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
      refuse_kept(whose, "; and it raised " + text_of(raised));
    }
    if (!is_alone()) refuse_kept(whose, "");
  }

  [[nodiscard]] py::handle owner() const { return capsule_; }

 private:
  void clear_frames(const py::error_already_set& raised) const;
  [[nodiscard]] bool is_alone() const { return capsule_.ref_count() == 1; }
  [[noreturn]] static void refuse_kept(const char* whose, const std::string& raised);

  py::capsule capsule_;
};

/// `function(sample)` with a `rota.Sample`. What it returns, or has changed in place, is the sample, of
/// `to.fields`. Throws Error{callback} where it kept a view of the memory, which is used again.
void take(py::handle function, const Argument& as, Transform& to);
/// `function(batch)` with a mapping of names to arrays, which returns one of `to.fields`.
void take(py::handle function, const Argument& as, Collate& to);
/// An object with `allocate(bytes) -> address` and `release(address, bytes)`.
void take(py::handle allocator, const Argument& as, Allocator& to);
/// Tells a function of Python, unless it is None, how far a task is; and lets Ctrl-C end the task.
void take(py::handle function, const Argument& as, ProgressFunction& to);
inline py::object give(const Transform& /*none*/) { return py::none(); }
inline py::object give(const Collate& /*none*/) { return py::none(); }
inline py::object give(const Allocator& /*none*/) { return py::none(); }
inline py::object give(const ProgressFunction& /*none*/) { return py::none(); }

/// Calls it with each message of the process.
void send_messages_to(const py::function& function);

/// Runs the tool with a command line, a list of bytes, and returns its exit code. Its messages go to stderr.
int run_tool(const py::list& command_line);

/// Takes what Python code returned as arrays of these fields: `rota._values.Items`. Throws Error{callback}
/// naming the field; `task` begins the message. Made and used with the GIL.
class Items {
 public:
  Items(std::string_view task, std::vector<Field> fields);
  /// An array for each field of a sample.
  [[nodiscard]] std::vector<py::array> sample(py::handle returned) const;
  /// The same, copied to `out`.
  void put(py::handle returned, StreamSample& out) const;
  /// For each field of a batch its array, and the rows of each sample, where it is ragged.
  using Rows = std::vector<std::int64_t>;
  [[nodiscard]] std::vector<std::pair<py::array, Rows>> batch(py::handle returned,
                                                              std::int64_t samples) const;
  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }

 private:
  std::vector<Field> fields_;
  Shared take_;
};

}  // namespace rota::python
