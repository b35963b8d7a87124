#include "rota/error.hpp"

namespace rota {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::out_of_range:
      return "out_of_range";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::callback:
      return "callback";
  }
  return "unknown";
}

}  // namespace rota
