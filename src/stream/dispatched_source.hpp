#pragma once

#include <memory>

#include "rota/dispatch.hpp"
#include "rota/mpi.hpp"

namespace rota::internal {

/// Throws Error{invalid_argument} for what cannot be dispatched. What rank 0's source is, rank 0 alone looks
/// at.
void check(const Dispatch& dispatch, const World& world);

/// **Collective.** What a dispatch is, on all ranks: its fields, shards, cursor numbers and fingerprint, as
/// rank 0's source has them. It cannot be opened. Throws what that throws when asked.
std::shared_ptr<const StreamSource> describe(const Dispatch& dispatch, const mpi::Communicator& comm);

}  // namespace rota::internal
