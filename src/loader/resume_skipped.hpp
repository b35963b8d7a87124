#pragma once

// What a loader has skipped, in a checkpoint, in tensors beside its cursors that are only there where
// something is skipped or may be:
//   loader/<name>/skipped_counts  int64 [world size]: what each rank has skipped. Their sum is that of the
//   run:
//                                 the first is also of what was skipped before the run was last restored.
//   loader/<name>/skipped         int64 [n, 4]: the lists of all ranks, one after the other: epoch, id, bytes
//                                 of the place, bytes of the error
//   loader/<name>/skipped_text    uint8 [bytes]: places and errors, in that order

#include <cstdint>
#include <string_view>
#include <vector>

#include "rota/bad_samples.hpp"
#include "rota/checkpoint.hpp"
#include "rota/loader.hpp"
#include "rota/world.hpp"

namespace rota::internal {

void save_skipped(const Loader& loader, Snapshot& snapshot, std::string_view name);

/// What was skipped in a run, of which `samples` are the listed ones that `world`'s rank has its equal share
/// of.
struct SavedSkips {
  std::int64_t count = 0;
  std::vector<SkippedSample> samples;
};

/// Nothing skipped where the checkpoint does not say. Throws Error{corrupt} where it cannot be so of a
/// dataset of `size` samples.
SavedSkips read_skipped(const Checkpoint& checkpoint, std::string_view name, World world, std::int64_t size);

/// The count alone.
std::int64_t count_skipped(const Checkpoint& checkpoint, std::string_view name);

}  // namespace rota::internal
