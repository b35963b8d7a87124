#pragma once

// What others ask of MPI without its types. Where rota is built without it, left_out.cpp answers.

#include <chrono>

#include "rota/communicator.hpp"

namespace rota::mpi {

/// Whether MPI was begun, and not ended; whether it was ended, for ever.
[[nodiscard]] bool is_running() noexcept;
[[nodiscard]] bool has_ended() noexcept;
/// **Collective.** That of a handle as Fortran has it, which mpi4py gives. Throws as mpi::communicator, and
/// Error{unsupported} where rota is built without MPI.
[[nodiscard]] Communicator of_fortran(int handle, std::chrono::milliseconds deadline);

}  // namespace rota::mpi
