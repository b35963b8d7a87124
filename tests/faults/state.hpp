#pragma once

// The state that the programs save: every byte depends on the step alone, and not on the world that saves it.

#include <cstdint>
#include <string>

#include "rota/checkpoint.hpp"
#include "rota/world.hpp"

namespace rota_faults {

/// This rank's part of the state of `step`: tensors with uneven rows, some ranks having none, one whose rows
/// have to be moved, one without rows, and blobs.
[[nodiscard]] rota::Snapshot make_state(std::int64_t step, const rota::World& world);

/// What of `checkpoint` is not as the step in it says; empty where all is well.
[[nodiscard]] std::string difference(const rota::Checkpoint& checkpoint);

}  // namespace rota_faults
