#pragma once

// The names of enumerators, each once: for texts and for what options may be.

#include <array>
#include <string_view>

namespace rota::internal {

inline constexpr std::array<std::string_view, 4> kShuffles{"none", "within", "global", "block"};
inline constexpr std::array<std::string_view, 4> kTails{"partial", "carry", "drop", "pad"};
inline constexpr std::array<std::string_view, 4> kAccesses{"cached", "direct", "mapped", "automatic"};
inline constexpr std::array<std::string_view, 3> kSplits{"by_sample", "by_shard", "interleaved"};

}  // namespace rota::internal
