#pragma once

// The names of enumerators, each once: for texts and for what options may be.

#include <array>
#include <string_view>

namespace rota::internal {

inline constexpr std::array<std::string_view, 4> kShuffles{"none", "within", "global", "block"};
inline constexpr std::array<std::string_view, 4> kTails{"partial", "carry", "drop", "pad"};
inline constexpr std::array<std::string_view, 4> kAccesses{"cached", "direct", "mapped", "automatic"};
inline constexpr std::array<std::string_view, 4> kSplits{"by_sample", "by_shard", "interleaved", "balanced"};
inline constexpr std::array<std::string_view, 2> kFits{"concat", "best"};
inline constexpr std::array<std::string_view, 2> kEdges{"drop", "clamp"};
inline constexpr std::array<std::string_view, 2> kSettles{"at_delivery", "by_hand"};
inline constexpr std::array<std::string_view, 2> kPolicies{"fail", "skip"};  // BadSamples::Policy
inline constexpr std::array<std::string_view, 3> kMixtureEnds{"first_exhausted", "all_exhausted", "steps"};
inline constexpr std::array<std::string_view, 3> kStageUnits{"steps", "samples", "tokens"};
inline constexpr std::array<std::string_view, 2> kChangeDetections{"by_size", "by_name"};
inline constexpr std::array<std::string_view, 3> kFolderLayouts{"round_robin", "blocks", "restart"};
inline constexpr std::array<std::string_view, 3> kShardFormats{"tar", "mds", "tfrecord"};
inline constexpr std::array<std::string_view, 10> kErrorCodes{
    "invalid_argument", "not_found",   "io",   "corrupt", "out_of_range",
    "mismatch",         "unsupported", "busy", "timeout", "callback"};

}  // namespace rota::internal
