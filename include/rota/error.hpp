#pragma once

// The one exception type of rota. Every other header may throw it; next: world.hpp.

#include <stdexcept>
#include <string>
#include <string_view>

namespace rota {

/// What kind of failure an Error reports. Programs may branch on it; people read the message.
enum class ErrorCode {
  invalid_argument,  ///< an option or argument that can never work
  not_found,         ///< a file, directory, dataset or name that is not there
  io,                ///< the operating system refused or failed an operation
  corrupt,           ///< bytes that are not what their checksum, header or index says
  out_of_range,      ///< an id, row or position past the end
  mismatch,          ///< another dataset, seed, split, order or element type than the one at hand
  unsupported,       ///< a valid file or request that this version cannot serve
  busy,              ///< somebody else holds the lock
  timeout,           ///< a rank did not arrive within the deadline
  callback,          ///< code of the user's own (a transform, a source, a state) threw
};

/// The name of `code` as written in the enumeration, for logs.
std::string_view to_string(ErrorCode code) noexcept;

/// An error with a code and a message that says what was tried, on what, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace rota
