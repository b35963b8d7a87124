#pragma once

// Which ranks run on the same machine.

#include <utility>

#include "rota/mpi.hpp"

namespace rota::mpi {

/// The ranks of a communicator, by node: all, those of this node, and the first of each node, which lead.
/// Default-made it is one process that needs no MPI. Move-only; *one thread*.
class Nodes {
 public:
  /// What tests have otherwise than MPI says it.
  struct Pretence {
    int ranks_per_node = 0;        ///< that many ranks in a row are a node; 0: those that share memory
    bool can_share_memory = true;  ///< ranks may open one another's memory
  };

  Nodes() = default;
  /// **Collective** over `all`. Throws Error{io}, Error{timeout}.
  explicit Nodes(Communicator all) : Nodes(std::move(all), Pretence{}) {}
  Nodes(Communicator all, const Pretence& pretence);

  [[nodiscard]] const Communicator& all() const noexcept { return all_; }
  [[nodiscard]] const Communicator& node() const noexcept { return node_; }
  /// The first ranks of all nodes, for those to use; rank 0 is the first.
  [[nodiscard]] const Communicator& leaders() const noexcept { return leaders_; }
  [[nodiscard]] bool leads() const noexcept { return node_.rank() == 0; }
  [[nodiscard]] bool are_many() const noexcept { return are_many_; }
  [[nodiscard]] bool can_share_memory() const noexcept { return can_share_memory_; }
  /// A sign of progress, on whichever of the communicators others wait for this rank.
  void show_progress() const;

 private:
  Communicator all_;
  Communicator node_;
  Communicator leaders_;
  bool are_many_ = false;
  bool can_share_memory_ = true;
};

}  // namespace rota::mpi
