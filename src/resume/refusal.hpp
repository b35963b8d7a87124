#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "rota/error.hpp"

namespace rota::internal {

/// How a saved state is refused, before anything was moved.
struct Refusal {
  std::string_view what;   ///< is to be restored: "a loader", say
  std::string from;        ///< the path of a checkpoint, or "a text"
  std::string_view saved;  ///< "the checkpoint", or "the text"
  std::string_view rule;   ///< what must not change

  /// No more of `why` is said than people read: parts of it may be the state's own.
  [[noreturn]] void fail(ErrorCode code, std::string_view why) const {
    constexpr std::size_t kMostSaid = 1000;
    throw Error(code, fmt::format("restore {} from {}: {}{}", what, from, why.substr(0, kMostSaid),
                                  why.size() > kMostSaid ? " ..." : ""));
  }
  /// It is damaged, or was never such a state.
  [[noreturn]] void fail(std::string_view why) const {
    fail(ErrorCode::corrupt, fmt::format("{}; take another one", why));
  }
  template <typename Value>
  void require_same(std::string_view part, const Value& then, const Value& now) const {
    if (then == now) return;
    fail(ErrorCode::mismatch,
         fmt::format("{} differs: {} has {}, this loader has {}; {}", part, saved, then, now, rule));
  }
};

}  // namespace rota::internal
