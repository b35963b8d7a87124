#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rota::internal {

/// What a shard weighs of which nobody knows how much is in it.
inline constexpr std::int64_t kUnknownWeight = -1;

/// The rank that owns each shard, of `ranks`: the heaviest shards first, each to the rank that has least so
/// far (then fewest shards, then the lowest number). Shards of unknown weight weigh the mean of the others,
/// or all alike. A pure function of `weights`, which are the same on all ranks.
std::vector<int> share_out(std::span<const std::int64_t> weights, int ranks);

}  // namespace rota::internal
