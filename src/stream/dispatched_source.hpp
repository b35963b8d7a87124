#pragma once

#include <memory>

#include "rota/mpi.hpp"
#include "rota/stream_loader.hpp"

namespace rota::internal {

/// Throws Error{invalid_argument} for options that no dispatch can have, and for no source on rank 0.
void check(const Dispatch& dispatch, const World& world);

/// **Collective.** What a dispatch is, on all ranks: its fields, shards, cursor numbers and fingerprint, as
/// rank 0's source has them. It cannot be opened. Throws on all ranks what
/// `ask_facts` throws, and Error{invalid_argument} for a source of more than one shard.
std::shared_ptr<const StreamSource> describe(const Dispatch& dispatch, const mpi::Communicator& comm);

}  // namespace rota::internal
