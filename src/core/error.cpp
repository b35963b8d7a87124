#include "rota/error.hpp"

#include <array>
#include <cstddef>

namespace rota {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 10> kNames{"invalid_argument", "not_found", "io",          "corrupt",
                                                  "out_of_range",     "mismatch",  "unsupported", "busy",
                                                  "timeout",          "callback"};
static_assert(static_cast<std::size_t>(ErrorCode::callback) + 1 == kNames.size());

}  // namespace

std::string_view to_string(ErrorCode code) noexcept {
  const auto i = static_cast<std::size_t>(code);
  return i < kNames.size() ? kNames[i] : "unknown";
}

}  // namespace rota
