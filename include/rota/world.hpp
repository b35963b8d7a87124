#pragma once

// Who takes part: this process's place among those that share the data. Next: types.hpp.

namespace rota {

/// The place of this process in its data-parallel group: rank `rank` of `size`. Ranks that must see the same
/// data (tensor or pipeline parallel peers) share one place. `mpi::world(comm)` makes one from a
/// communicator.
struct World {
  int rank = 0;
  int size = 1;

  friend bool operator==(const World&, const World&) = default;

  /// Throws Error{invalid_argument} unless 0 <= rank < size.
  void validate() const;
};

/// The place that mpirun (OMPI_COMM_WORLD_RANK/_SIZE or PMI_RANK/_SIZE), srun (SLURM_PROCID, SLURM_NTASKS) or
/// torchrun (RANK, WORLD_SIZE) gave this process in its environment; rank 0 of 1 where none of them did.
/// torchrun is asked first, for it may itself run under one of the others.
/// Throws Error{invalid_argument} where a pair is incomplete or is no place.
World world_from_environment();

}  // namespace rota
