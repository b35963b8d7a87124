#pragma once

// Which checkpoints a directory drops.

#include <cstdint>
#include <span>
#include <vector>

#include "rota/checkpoint_directory.hpp"

namespace rota::checkpoint {

/// A checkpoint that is there. One that is known to be damaged is not counted among those kept.
struct Present {
  std::int64_t serial = 0;
  bool is_good = true;
};

/// The serials that `policy` does not keep of `newest_first`. `verified`, the last that was read and verified
/// as a whole (-1: none was), is always kept, as is everything newer than the last one that counts.
[[nodiscard]] std::vector<std::int64_t> to_drop(std::span<const Present> newest_first,
                                                const CheckpointPolicy& policy, std::int64_t verified);

}  // namespace rota::checkpoint
