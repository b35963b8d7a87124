#include "dataset.hpp"

#include <algorithm>
#include <array>

#include "rota/open.hpp"
#include "rota/packing.hpp"

namespace rescale_demo {

rota::Mixture mixture_of(const std::shared_ptr<const rota::Source>& source, const RunOptions& run,
                         int datasets) {
  constexpr std::array kNames{"first", "second", "third"};
  constexpr std::array kWeights{3.0, 1.0, 0.0};
  const auto parts = rota::split(source, std::array{0.5, 0.3, 0.2}, run.loader.seed);
  rota::Mixture mixture{.end = rota::MixtureEnd::all_exhausted};
  for (std::size_t d = 0; d < static_cast<std::size_t>(datasets); ++d)
    mixture.datasets.push_back({.source = parts[d], .weight = kWeights[d], .name = kNames[d]});
  return mixture;
}

rota::RunPlan plan_of(std::int64_t samples, const RunOptions& run, int datasets) {
  const std::int64_t batch = run.loader.global_batch_size;
  const std::int64_t steps = samples * run.loader.epochs / batch;  // about
  const std::int64_t begin = steps / 5;                            // of those left out
  const std::int64_t left_out = std::min<std::int64_t>(50, std::max<std::int64_t>(steps / 6, 1));
  const auto weights = [&](std::vector<double> all) {
    all.resize(static_cast<std::size_t>(datasets));
    return all;
  };
  rota::RunPlan plan{.stages = {{.weights = weights({3, 1, 0})},
                                {.begin = samples * run.loader.epochs / 10,
                                 .global_batch_size = batch + (batch + 1) / 2,
                                 .weights = weights({1, 1, 0})}},
                     .skip = {{begin, begin + left_out}}};
  if (datasets > 2)
    plan.stages.push_back({.begin = samples * run.loader.epochs / 4 * 3, .weights = weights({1, 1, 2})});
  return plan;
}

std::shared_ptr<const rota::Source> open_dataset(const RunOptions& run, const rota::Communicator& comm) {
  std::shared_ptr<const rota::Source> source = rota::open(comm, run.data, run.format);
  if (run.pack_length) {
    source = rota::pack(comm, source, {.length = *run.pack_length, .seed = run.loader.seed});
  }
  if (run.window) source = rota::windows(source, *run.window);
  return source;
}

}  // namespace rescale_demo
