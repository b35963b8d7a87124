#pragma once

// One phase of a run: what a training program does with rota, traced.

#include "options.hpp"
#include "rota/mpi.hpp"

namespace rescale_demo {

/// Runs one phase on all ranks and returns its exit code. **Collective.** SIGTERM or SIGUSR1 on any rank
/// saves and stops in order. Throws rota::Error, on all ranks or on the one whose own data failed; a run that
/// is not allowed is refused before anything is written.
int run_phase(const rota::mpi::Communicator& comm, const PhaseOptions& options);

}  // namespace rescale_demo
