#pragma once

// Memory that the ranks of a node have in common: to write to, or of bytes that none changes.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "ranks/nodes.hpp"

namespace rota::internal {

/// Memory that several ranks have mapped. It has no name in any file system, and is gone with its ranks,
/// however they end.
struct NodeMemory {
  std::shared_ptr<std::byte> memory = nullptr;
  int ranks = 1;         ///< that have it in common
  bool is_first = true;  ///< of those ranks: whoever is to make something of the zeros
};

/// **Collective.** `bytes` > 0 bytes of zeros for each node. Throws on all ranks Error{io} where memory is
/// lacking.
NodeMemory make_node_memory(const ranks::Nodes& nodes, std::size_t bytes);

/// The same of bytes that none changes, for as long as any of them keeps `owner`. *Immutable.*
struct NodeBuffer {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Takes the bytes that follow those of the call before.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// **Collective.** What rank 0's `produce` puts into its sink; it is sent to the other nodes in pieces while
/// it is made. The ranks compare digests of what they got. Throws on all ranks what `produce` throws,
/// Error{io} where memory is lacking, Error{corrupt} where a rank got something else.
NodeBuffer broadcast_to_nodes(const ranks::Nodes& nodes, std::string_view phase,
                              const std::function<void(const ByteSink&)>& produce);

/// **Collective.** What each rank has, one behind the other in the order of ranks. Throws as
/// broadcast_to_nodes does.
NodeBuffer all_gather_to_nodes(const ranks::Nodes& nodes, std::string_view phase,
                               std::span<const std::byte> mine);

/// **Collective.** Throws Error{corrupt} on all ranks unless all have the same `bytes`.
void require_same_bytes(const Communicator& comm, std::string_view phase, std::span<const std::byte> bytes);

}  // namespace rota::internal
