#pragma once

// Which ranks run under one kernel, and can open the memory of the first of them: a node.

#include "rota/communicator.hpp"

namespace rota::ranks {

/// The ranks of a communicator, by node: all, those of this node, and the first of each node, which lead.
/// Default-made it is one process. Move-only; *one thread*.
class Nodes {
 public:
  Nodes() = default;
  /// **Collective** over `all`. For tests: so many ranks in a row are a node. Throws Error{io},
  /// Error{timeout}.
  explicit Nodes(Communicator all, int ranks_per_node = 0);

  [[nodiscard]] const Communicator& all() const noexcept { return all_; }
  [[nodiscard]] const Communicator& node() const noexcept { return node_; }
  /// The first ranks of all nodes, for those to use; rank 0 is the first.
  [[nodiscard]] const Communicator& leaders() const noexcept { return leaders_; }
  [[nodiscard]] bool leads() const noexcept { return node_.rank() == 0; }
  [[nodiscard]] bool are_many() const noexcept { return are_many_; }
  /// A sign of progress, on whichever of the communicators others wait for this rank.
  void show_progress() const;

 private:
  Communicator all_;
  Communicator node_;
  Communicator leaders_;
  bool are_many_ = false;
};

}  // namespace rota::ranks
