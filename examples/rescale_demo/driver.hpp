#pragma once

// The whole demo: phases under mpirun, the reference run, the audit of both, and the verdict.

#include "options.hpp"

namespace rescale_demo {

/// Runs the demo, prints a table and a verdict, and returns the exit code: 0 only if everything held. Does
/// not start MPI in this process. Throws rota::Error for what cannot be run.
int run_demo(const DriverOptions& options);

}  // namespace rescale_demo
