#pragma once

// Memory that the ranks of a node write to together.

#include <cstddef>
#include <memory>

#include "mpi/nodes.hpp"

namespace rota::internal {

/// Memory that several ranks have mapped. It has no name in any file system, and is gone with its ranks,
/// however they end.
struct NodeMemory {
  std::shared_ptr<std::byte> memory = nullptr;
  int ranks = 1;         ///< that have it in common
  bool is_first = true;  ///< of those ranks: whoever is to make something of the zeros
};

/// **Collective.** `bytes` > 0 bytes of zeros for each node; for each rank, where the ranks of a node cannot
/// open one another's memory. Throws on all ranks Error{io} where memory is lacking.
NodeMemory make_node_memory(const mpi::Nodes& nodes, std::size_t bytes);

}  // namespace rota::internal
