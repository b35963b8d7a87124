#pragma once

// Plans at random, of runs of some hundred samples.

#include "rota/run_plan.hpp"
#include "test.hpp"

namespace rota::test {

inline std::vector<double> random_weights(std::mt19937_64& random, std::size_t datasets) {
  std::vector<double> weights(datasets);
  for (double& weight : weights) weight = static_cast<double>(draw(random, 0, 5));
  if (!weights.empty()) weights[static_cast<std::size_t>(draw(random, 0, std::ssize(weights) - 1))] += 1;
  return weights;
}

/// Of a run over so many datasets, or, of 0, over one that it does not mix. Stages leave out some
/// of `samples`.
inline RunPlan random_plan(std::mt19937_64& random, std::size_t datasets,
                           const std::vector<SampleId>& samples = {}) {
  RunPlan plan;
  for (std::size_t d = 0; d < std::max<std::size_t>(datasets, 1); ++d)
    plan.tokens_per_sample.push_back(static_cast<double>(draw(random, 1, 40)) / 4);
  plan.are_weights_of_tokens = draw(random, 0, 2) == 0;
  const auto unit = static_cast<Stage::Unit>(draw(random, 0, 2));
  const std::int64_t step = unit == Stage::Unit::steps ? 5 : unit == Stage::Unit::samples ? 60 : 300;
  std::int64_t begin = draw(random, 0, 1) * draw(random, 0, step);
  for (std::int64_t stages = draw(random, 0, 4); stages > 0; --stages, begin += draw(random, 1, step)) {
    Stage stage{.begin = begin, .unit = unit};
    if (draw(random, 0, 2) != 0) stage.global_batch_size = draw(random, 1, 40);
    if (datasets > 0 && draw(random, 0, 1) == 0) stage.weights = random_weights(random, datasets);
    if (!stage.weights.empty() && stages > 1 && draw(random, 0, 2) == 0)
      stage.toward = random_weights(random, datasets);
    if (draw(random, 0, 1) == 0)
      std::ranges::copy_if(samples, std::back_inserter(stage.leave_out),
                           [&](SampleId) { return draw(random, 0, 2) == 0; });
    plan.stages.push_back(std::move(stage));
  }
  std::int64_t at = draw(random, 0, 9);
  for (std::int64_t ranges = draw(random, 0, 3); ranges > 0; --ranges, at += draw(random, 1, 9)) {
    plan.skip.push_back({at, at + draw(random, 1, 4)});
    at = plan.skip.back().end + 1;
  }
  return plan;
}

}  // namespace rota::test
