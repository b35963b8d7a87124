#pragma once

// Errors whose message is put together.

#include <fmt/format.h>

#include <utility>

#include "rota/error.hpp"

namespace rota::internal {

/// An Error whose message is what fmt::format makes of the rest.
template <typename... Parts>
[[nodiscard]] Error failure(ErrorCode code, fmt::format_string<Parts...> format, Parts&&... parts) {
  return {code, fmt::format(format, std::forward<Parts>(parts)...)};
}

}  // namespace rota::internal
