#pragma once

// Bytes that differ from rank to rank.

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "rota/mpi.hpp"

namespace rota::mpi {

/// One for each rank.
using Messages = std::vector<std::vector<std::byte>>;

/// **Collective.** `outgoing[r]` goes to rank r; returns what came from each rank. Throws Error{io},
/// Error{out_of_range} for more than 2^31 bytes of a rank.
Messages exchange(const Communicator& comm, const Messages& outgoing);

/// Gives bytes, at least one, to a rank.
using Deal = std::function<void(int rank, std::span<const std::byte> bytes)>;

/// **Collective.** Rank 0's `produce` deals; what it deals to a rank, `take` gets there, in order, while it
/// goes on. Throws on all ranks what one of these threw.
void deal_out(const Communicator& comm, std::string_view phase,
              const std::function<void(const Deal&)>& produce,
              const std::function<void(std::span<const std::byte>)>& take);

}  // namespace rota::mpi
