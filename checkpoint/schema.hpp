#pragma once

// What all ranks of a save must have in common.

#include <cstdint>

#include "rota/mpi.hpp"
#include "snapshot_data.hpp"

namespace rota::checkpoint {

/// **Collective.** Throws on all ranks, naming the first difference,
/// - Error{invalid_argument} unless they all have the same `step`, the same tensors but for their rows, and
/// no
///   blob of the job that rank 0 lacks
/// - Error{mismatch} unless Snapshot::same was told the same.
void require_same_schema(const mpi::Communicator& ranks, const SnapshotData& snapshot, std::int64_t step);

}  // namespace rota::checkpoint
