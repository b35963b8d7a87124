// What does a run as a value cost: a copy, a place far away, a step of one rank; and one with a plan?

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "rota/run.hpp"

namespace {

using rota::MixtureEnd;
using rota::Run;
using rota::RunData;
using rota::RunSlice;

Run equal() { return Run(1'000'000'000'000, {.global_batch_size = 512, .epochs = rota::kEndless}); }
Run ragged() {
  constexpr std::int64_t kShards = 1 << 20;
  const RunData data{.samples = 4 * kShards, .shard_lengths = std::vector<std::int64_t>(kShards, 4)};
  return Run({data}, {.global_batch_size = 512, .epochs = rota::kEndless});
}
Run mixture() {
  RunData data{.samples = 1'000'000'000};
  return Run(std::vector<RunData>(10, data), {.global_batch_size = 512,
                                              .weights = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                                              .end = MixtureEnd::steps,
                                              .steps = rota::kMaxCount});
}

/// Of one that has walked: what it remembers is not copied.
void copy(benchmark::State& state, const Run& run) {
  RunSlice slice;
  run.slice(slice);
  for (auto _ : state) {
    Run made = run;
    benchmark::DoNotOptimize(made);
  }
}
BENCHMARK_CAPTURE(copy, equal, equal());
BENCHMARK_CAPTURE(copy, ragged, ragged());
BENCHMARK_CAPTURE(copy, mixture, mixture());

void place(benchmark::State& state, const Run& run) {
  for (auto _ : state) benchmark::DoNotOptimize(run.at(1'000'000'000));
}
BENCHMARK_CAPTURE(place, equal, equal());
BENCHMARK_CAPTURE(place, mixture, mixture());

// ---- plans ----

// Of so many stages, each of another batch size and of weights that are no ratios, every other one in a line.
rota::RunPlan plan_of(std::int64_t stages, std::size_t datasets) {
  std::mt19937_64 random(1);
  const auto weights = [&] {
    std::vector<double> made(datasets);
    for (double& weight : made) weight = std::uniform_real_distribution<double>(0.01, 1)(random);
    return made;
  };
  rota::RunPlan plan;
  for (std::int64_t s = 0; s < stages; ++s) {
    plan.stages.push_back({.begin = s * 20'000'000'000, .global_batch_size = 512 + s, .weights = weights()});
    if (s % 2 == 1 && s + 1 < stages) plan.stages.back().toward = weights();
  }
  plan.skip = {{1000, 1050}, {500'000'000, 500'000'050}};
  return plan;
}

Run planned(std::int64_t stages, std::size_t datasets) {
  const RunData data{.samples = 1'000'000'000};
  return Run(std::vector<RunData>(datasets, data), {.global_batch_size = 512,
                                                    .weights = std::vector<double>(datasets, 1),
                                                    .end = MixtureEnd::steps,
                                                    .steps = rota::kMaxCount,
                                                    .plan = plan_of(stages, datasets)});
}

/// A plan of 10 stages is taken.
void take(benchmark::State& state) {
  const auto datasets = static_cast<std::size_t>(state.range(0));
  const rota::RunPlan plan = plan_of(10, datasets);
  const Run run = planned(0, datasets);
  for (auto _ : state) {
    Run made = run;
    made.replan(plan);
    benchmark::DoNotOptimize(made);
  }
}
BENCHMARK(take)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

/// To step 10^9, with its first batch.
void jump(benchmark::State& state) {
  const Run run = planned(10, static_cast<std::size_t>(state.range(0)));
  RunSlice slice;
  for (auto _ : state) run.at(1'000'000'000)->slice(slice, {.rank = 3, .size = 64});
}
BENCHMARK(jump)->Arg(10)->Arg(100)->Unit(benchmark::kMicrosecond);

/// A step of one rank of 64, of 100 datasets: without a plan, and in the last of 10 stages, of the same
/// batches.
void step(benchmark::State& state) {
  const rota::RunPlan plan = plan_of(10, 100);
  const RunData data{.samples = 1'000'000'000};
  Run run = state.range(0) != 0 ? planned(10, 100)
                                : Run(std::vector<RunData>(100, data),
                                      {.global_batch_size = plan.stages.back().global_batch_size,
                                       .weights = plan.stages.back().weights,
                                       .end = MixtureEnd::steps,
                                       .steps = rota::kMaxCount});
  run = *run.at(600'000'000);
  RunSlice slice;
  for (auto _ : state) {
    if (!run.slice(slice, {.rank = 3, .size = 64})) break;
    run.advance(slice);
  }
}
BENCHMARK(step)->Arg(0)->Arg(10);

}  // namespace

BENCHMARK_MAIN();
