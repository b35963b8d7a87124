#pragma once

// A state that programs save: every byte, and how many rows there are, depends on the step alone, and
// not on the world that saves it.

#include "test.hpp"

namespace rota::test {

/// Byte `at` of tensor or blob `index` at `step`.
std::byte byte_at(std::int64_t step, std::size_t index, std::int64_t at);

/// Adds this rank's part of the state of `step`: ragged rows of which some ranks have none, rows dealt out
/// round robin, long rows, no rows at all, and blobs; about `bytes` bytes over all ranks.
void add_state(Snapshot& snapshot, std::int64_t step, const World& world, std::int64_t bytes);
Snapshot make_state(std::int64_t step, const World& world, std::int64_t bytes);

/// What of `checkpoint` is not as the step in it says; empty where all is well.
std::string difference(const Checkpoint& checkpoint, std::int64_t bytes);

}  // namespace rota::test
