#pragma once

// The one exception type of rota. Every other header may throw it; next: world.hpp.

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace rota {

/// What kind of failure an Error reports. Programs may branch on it; people read the message.
enum class ErrorCode {
  invalid_argument,  ///< an option or argument that can never work
  not_found,         ///< a file, directory, dataset or name that does not exist
  io,                ///< the operating system refused or failed an operation
  corrupt,           ///< bytes that disagree with their checksum, header or index
  out_of_range,      ///< an id, row or position past the end
  mismatch,          ///< a different dataset, seed, split, order or element type
  unsupported,       ///< a valid file or request that this version cannot serve
  busy,              ///< in use: the lock of a directory, or the one StopSignal
  timeout,           ///< a rank, or a server's answer, did not arrive within the deadline
  callback,          ///< the user's code (a transform, a source, a state) threw or answered wrongly
};

/// The name of `code` as written in the enumeration, for logs.
std::string_view to_string(ErrorCode code) noexcept;

/// An error with a code and a message that says what was tried, on what, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::exception_ptr cause = nullptr)
      : std::runtime_error(message), code_(code), cause_(std::move(cause)) {}

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// What the user's code (a transform, a source, a stream) threw, if that is the reason, and on this rank;
  /// null otherwise. An Error that it threw itself is passed on with more text, and is no cause.
  [[nodiscard]] const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  ErrorCode code_;
  std::exception_ptr cause_;
};

}  // namespace rota
