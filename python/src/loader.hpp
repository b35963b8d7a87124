#pragma once

// What the loaders of samples and of streams share.

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <memory>
#include <string>
#include <type_traits>

#include "errors.hpp"
#include "one_thread.hpp"
#include "rota/error.hpp"
#include "rota/loader_options.hpp"
#include "values/interrupt.hpp"

namespace rota::python {

/// An option by its name; Python's side has all of them.
template <typename T>
T option(const py::dict& options, const char* name) {
  const py::object value = options[name];
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    const auto why = fmt::format("make a loader: {} cannot be {}", name, py::repr(value).cast<std::string>());
    if (!py::isinstance<py::int_>(value) || !std::is_integral_v<T>) throw py::type_error(why);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}; it must be a number of {} bits{}", why, 8 * sizeof(T),
                            std::is_unsigned_v<T> ? ", 0 or more" : ""));
  }
}
std::chrono::milliseconds seconds(const py::dict& options, const char* name);

py::dict dict_of(const LoaderStats& stats);

/// Makes a loader of `arguments`, without the GIL.
template <typename T, typename... Arguments>
std::unique_ptr<OneThread<T>> make_loader(const Arguments&... arguments) {
  const py::gil_scoped_release released;
  const internal::InterruptScope interruptible(&check_signals);
  return std::make_unique<OneThread<T>>("a loader", std::make_shared<T>(arguments...));
}

}  // namespace rota::python
