#pragma once

// The rank of this process among those that share the data. Next: types.hpp.

namespace rota {

/// The place of this process in its data-parallel group: rank `rank` of `size`. Tensor, pipeline or context
/// parallel peers must see the same data: they share one place, as replicas. `mpi::world(comm)` makes a World
/// of a communicator, `Communicator::data_parallel` one with replicas.
struct World {
  int rank = 0;
  int size = 1;
  int replica = 0;  ///< number among the replicas of this rank; 0 writes their state

  friend bool operator==(const World&, const World&) = default;

  /// Throws Error{invalid_argument} unless 0 <= rank < size and replica >= 0.
  void validate() const;
};

/// The World that the nearest launcher put into the environment. Without a launcher it is rank 0 of 1. Asked
/// in this order:
/// - torchrun: RANK, WORLD_SIZE; first, because it may itself run under another launcher
/// - mpirun: OMPI_COMM_WORLD_RANK and _SIZE, or PMI_RANK and PMI_SIZE
/// - srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS. A job script that starts its program without srun is alone.
///
/// Throws Error{invalid_argument} where a pair is incomplete or invalid.
World world_from_environment();

namespace internal {

/// What world_from_environment finds, by which launcher, and the variable that says how many; "" without one.
struct Launched {
  World world = {};
  const char* by = "";
  const char* named = "";
};
Launched launched();

/// The operating system's number of this process.
int this_process() noexcept;

/// Deletes an object in the process that made it, and leaks it in a forked child. The threads of the object
/// do not run in the child, so waiting for them would never end. Its open files are the parent's.
struct DeleteWhereMade {
  int maker = this_process();
  [[nodiscard]] bool is_here() const noexcept { return this_process() == maker; }
  template <typename T>
  void operator()(T* object) const noexcept {
    if (is_here()) delete object;
  }
};

/// What is behind a loader, for rota itself.
struct Behind;

}  // namespace internal

}  // namespace rota
