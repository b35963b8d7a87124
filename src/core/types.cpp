#include "rota/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/enumerators.hpp"
#include "rota/error.hpp"

namespace rota {
namespace {

using internal::kShuffles;
using internal::kSplits;
using internal::kTails;

template <typename Enum>
std::string_view name_of(std::span<const std::string_view> names, Enum value) noexcept {
  const auto i = static_cast<std::size_t>(value);
  return i < names.size() ? names[i] : "unknown";
}

std::size_t find(std::string_view what, std::span<const std::string_view> names, std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw Error(ErrorCode::invalid_argument,
              fmt::format("read {} \"{}\": it must be one of {}", what, text, fmt::join(names, ", ")));
}

}  // namespace

std::string_view to_string(Shuffle shuffle) noexcept { return name_of(kShuffles, shuffle); }
std::string_view to_string(Tail tail) noexcept { return name_of(kTails, tail); }
std::string_view to_string(Split split) noexcept { return name_of(kSplits, split); }

Shuffle parse_shuffle(std::string_view text) {
  return static_cast<Shuffle>(find("shuffle", kShuffles, text));
}
Tail parse_tail(std::string_view text) { return static_cast<Tail>(find("tail", kTails, text)); }
Split parse_split(std::string_view text) { return static_cast<Split>(find("split", kSplits, text)); }

}  // namespace rota
