#pragma once

// How many ranks MPI runs.

namespace rota::mpi {

/// Ranks of MPI_COMM_WORLD; 1 before MPI_Init and after MPI_Finalize. Not collective.
[[nodiscard]] int job_size();

}  // namespace rota::mpi
