#pragma once

// The dataset of the demo: what is there, packed or cut into windows where that is asked for.

#include <memory>

#include "options.hpp"
#include "rota/loader.hpp"
#include "rota/mpi.hpp"
#include "rota/source.hpp"

namespace rescale_demo {

/// Parts of a dataset, that are mixed by a plan: the first `datasets` of three.
rota::Mixture mixture_of(const std::shared_ptr<const rota::Source>& source, const RunOptions& run,
                         int datasets);
/// What a mixture of so many changes on its way. That of three says the same of the past as that of two,
/// which came first: the third has its turns from the last stage on.
rota::RunPlan plan_of(std::int64_t samples, const RunOptions& run, int datasets);

/// **Collective.** Throws what opening, packing and windows throw.
std::shared_ptr<const rota::Source> open_dataset(const RunOptions& run, const rota::Communicator& comm);

}  // namespace rescale_demo
