#include "mpi/nodes.hpp"

#include "mpi/collectives.hpp"

namespace rota::mpi {
namespace {

// Takes what MPI_Comm_split made; MPI_COMM_NULL is a world of one.
Communicator own(MPI_Comm made) {
  if (made == MPI_COMM_NULL) return {};
  Communicator copy(made);
  MPI_Comm_free(&made);
  return copy;
}

Communicator node_of(const Communicator& all, int ranks_per_node) {
  MPI_Comm node = MPI_COMM_NULL;
  if (ranks_per_node > 0) {
    check(MPI_Comm_split(all.get(), all.rank() / ranks_per_node, all.rank(), &node), "MPI_Comm_split");
  } else {
    check(MPI_Comm_split_type(all.get(), MPI_COMM_TYPE_SHARED, all.rank(), MPI_INFO_NULL, &node),
          "MPI_Comm_split_type");
  }
  return own(node);
}

}  // namespace

Nodes::Nodes(const Communicator& comm, const Pretence& pretence)
    : can_share_memory_(pretence.can_share_memory) {
  all_ = comm.duplicate();
  if (all_.get() == MPI_COMM_NULL) return;
  node_ = node_of(all_, pretence.ranks_per_node);
  MPI_Comm leaders = MPI_COMM_NULL;
  check(MPI_Comm_split(all_.get(), leads() ? 0 : MPI_UNDEFINED, all_.rank(), &leaders), "MPI_Comm_split");
  leaders_ = own(leaders);
}

}  // namespace rota::mpi
