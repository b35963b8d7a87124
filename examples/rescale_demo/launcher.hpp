#pragma once

// Starting programs under mpirun, and waiting for them no longer than they may take.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace rescale_demo {

/// Starts `mpirun -n RANKS` with this program and `arguments`, in a process group of its own, what it prints
/// in file `log`, and waits. Throws rota::Error{io} for a wrong exit, with what was printed last,
/// rota::Error{timeout} after `timeout`, rota::Error{not_found} where there is no mpirun. What was started
/// has ended in any case, also where this process gets SIGINT or SIGTERM meanwhile (Error{io}).
void launch(int ranks, const std::vector<std::string>& arguments, const std::filesystem::path& log,
            std::chrono::seconds timeout);

/// Sets what Open MPI needs to start as root and with more ranks than cores, where it is not set already.
void prepare_mpi_environment();

}  // namespace rescale_demo
