#pragma once

// The dataset of the demo: what is there, packed or cut into windows where that is asked for.

#include <memory>

#include "options.hpp"
#include "rota/mpi.hpp"
#include "rota/source.hpp"

namespace rescale_demo {

/// **Collective.** Throws what opening, packing and windows throw.
std::shared_ptr<const rota::Source> open_dataset(const RunOptions& run, const rota::Communicator& comm);

}  // namespace rescale_demo
