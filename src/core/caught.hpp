#pragma once

// An exception of any type as a code and a text.

#include <exception>
#include <string>
#include <string_view>

#include "rota/error.hpp"

namespace rota::internal {

/// A callback that failed as programs do, not as data do: a name that is not, say.
class ProgramError : public Error {
  using Error::Error;
};

/// What an exception says. One that is no Error is the fault of a callback.
struct Caught {
  ErrorCode code = ErrorCode::callback;
  std::string message = {};
  bool is_out_of_memory = false;
  bool is_programs = false;       ///< was a ProgramError
  std::exception_ptr cause = {};  ///< Error::cause; the exception itself, where it is no Error

  /// As an Error whose message begins with `task`.
  [[nodiscard]] Error as_error(std::string_view task) const;
  /// The same, unless the message names `path` by itself.
  [[nodiscard]] Error as_error_of(std::string_view path, std::string_view task) const;
};

/// What `work` throws; null where it throws nothing.
template <typename Work>
[[nodiscard]] std::exception_ptr thrown_by(Work&& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// The exception at hand: only inside a `catch`. Throws on what ends a wait early (Stopped), which is
/// nobody's error.
[[nodiscard]] Caught caught();
/// `error`, which is not null.
[[nodiscard]] Caught caught(const std::exception_ptr& error);

}  // namespace rota::internal
