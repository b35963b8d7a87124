#pragma once

// What a loader has skipped, in a checkpoint: STATE.md says in which tensors.

#include <cstdint>
#include <string_view>
#include <vector>

#include "resume/json.hpp"
#include "rota/checkpoint.hpp"
#include "rota/loader.hpp"
#include "rota/loader_options.hpp"
#include "rota/world.hpp"

namespace rota::internal {

/// `is_alone`: no other rank saves. What others have skipped is then left out, as `state` does.
void save_skipped(const Loader& loader, Snapshot& snapshot, std::string_view name, bool is_alone);

/// What was skipped in a run, of which `samples` are the listed ones that `world`'s rank has its equal share
/// of.
struct SavedSkips {
  std::int64_t count = 0;
  std::vector<SkippedSamples::Sample> samples;
};

/// Nothing skipped where the checkpoint does not say. Throws Error{corrupt} where it cannot be so of a
/// dataset of `size` samples.
SavedSkips read_skipped(const Checkpoint& checkpoint, std::string_view name, World world, std::int64_t size,
                        const Refusal& refusal);

/// The count alone.
std::int64_t count_skipped(const Checkpoint& checkpoint, std::string_view name, const Refusal& refusal);

}  // namespace rota::internal
