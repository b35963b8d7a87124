#pragma once

// One phase of a run: what a training program does with rota, traced.

#include <cstdint>
#include <filesystem>

#include "options.hpp"
#include "rota/mpi.hpp"

namespace rescale_demo {

/// What a phase tells the demo.
struct PhaseSummary {
  std::int64_t steps = 0;
  std::int64_t samples = 0;  ///< slots of all ranks
  double restore_seconds = 0;
  double save_seconds = 0;  ///< of the last save
};

/// What a phase wrote to PhaseOptions::summary. Throws rota::Error{io}.
PhaseSummary read_summary(const std::filesystem::path& file);

/// Runs one phase on all ranks and returns its exit code. **Collective.** SIGTERM or SIGUSR1 on any rank
/// saves and stops in order. Throws rota::Error, on all ranks or on the one whose own data failed; a run that
/// is not allowed is refused before anything is written.
int run_phase(const rota::Communicator& comm, const PhaseOptions& options);

}  // namespace rescale_demo
