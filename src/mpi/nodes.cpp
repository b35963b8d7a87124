#include "mpi/nodes.hpp"

#include <array>

#include "mpi/collectives.hpp"
#include "mpi/exchange.hpp"

namespace rota::mpi {
namespace {

// Takes what a split of `all` made, whose ranks keep their names; MPI_COMM_NULL is a world of one.
Communicator take(const Communicator& all, MPI_Comm made) {
  if (made == MPI_COMM_NULL) return {};
  Communicator part(made, exchange_of(all).deadline());
  MPI_Comm_free(&made);
  exchange_of(part).call_ranks(all_gather<int>(part, std::array{all.rank()}));
  return part;
}

// MPI_Comm_split knows no deadline, so ranks meet first.
Communicator node_of(const Communicator& all, int ranks_per_node) {
  agree(all, "find the ranks of each node", nullptr);
  MPI_Comm node = MPI_COMM_NULL;
  if (ranks_per_node > 0) {
    check(MPI_Comm_split(all.get(), all.rank() / ranks_per_node, all.rank(), &node), "MPI_Comm_split");
  } else {
    check(MPI_Comm_split_type(all.get(), MPI_COMM_TYPE_SHARED, all.rank(), MPI_INFO_NULL, &node),
          "MPI_Comm_split_type");
  }
  return take(all, node);
}

}  // namespace

Nodes::Nodes(Communicator all, const Pretence& pretence)
    : all_(std::move(all)), can_share_memory_(pretence.can_share_memory) {
  require_ranks(all_);
  if (all_.get() == MPI_COMM_NULL) return;
  node_ = node_of(all_, pretence.ranks_per_node);
  agree(all_, "find the first ranks of all nodes", nullptr);
  MPI_Comm leaders = MPI_COMM_NULL;
  check(MPI_Comm_split(all_.get(), leads() ? 0 : MPI_UNDEFINED, all_.rank(), &leaders), "MPI_Comm_split");
  leaders_ = take(all_, leaders);
  are_many_ = broadcast(all_, leaders_.size()) > 1;
}

void Nodes::show_progress() const {
  mpi::show_progress(all_);
  mpi::show_progress(leaders_);
}

}  // namespace rota::mpi
