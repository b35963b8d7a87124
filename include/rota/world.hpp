#pragma once

// Who takes part: this process's place among those that share the data. Next: types.hpp.

namespace rota {

/// The place of this process in its data-parallel group: rank `rank` of `size`. Processes that must see the
/// same data (tensor, pipeline or context parallel peers) share one place, as replicas of one another.
/// `mpi::world(comm)` makes one from a communicator, `mpi::data_parallel` one with replicas.
struct World {
  int rank = 0;
  int size = 1;
  int replica = 0;  ///< its number among those that share the place; number 0 writes their state

  friend bool operator==(const World&, const World&) = default;

  /// Throws Error{invalid_argument} unless 0 <= rank < size and replica >= 0.
  void validate() const;
};

/// The place that mpirun (OMPI_COMM_WORLD_RANK/_SIZE or PMI_RANK/_SIZE), srun (SLURM_PROCID, SLURM_NTASKS) or
/// torchrun (RANK, WORLD_SIZE) gave this process in its environment; rank 0 of 1 where none of them did.
/// torchrun is asked first, for it may itself run under one of the others.
/// Throws Error{invalid_argument} where a pair is incomplete or is no place.
World world_from_environment();

namespace internal {

/// The operating system's number of this process.
int this_process() noexcept;

/// Deletes an object in the process that made it. In a forked child it stays: its threads do not run there,
/// so that to wait for them would never end, and what it has open is the parent's.
struct DeleteWhereMade {
  int maker = this_process();
  [[nodiscard]] bool is_here() const noexcept { return this_process() == maker; }
  template <typename T>
  void operator()(T* object) const noexcept {
    if (is_here()) delete object;
  }
};

}  // namespace internal

}  // namespace rota
