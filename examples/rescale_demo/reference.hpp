#pragma once

// The run that is never interrupted.

#include <filesystem>
#include <memory>

#include "options.hpp"
#include "rota/source.hpp"

namespace rescale_demo {

/// Runs through `options.worlds` with one loader at one rank, in this process and without MPI: the same steps
/// and batch sizes, no stop but where datasets come, no checkpoint. Traces it in `dir`, one phase per world.
/// Returns the global batches.
std::int64_t run_reference(std::shared_ptr<const rota::Source> source, const DriverOptions& options,
                           const std::filesystem::path& dir);

}  // namespace rescale_demo
