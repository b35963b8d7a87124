// What does a run as a value cost: a copy, a place far away, a step of one rank?

#include <benchmark/benchmark.h>

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

}  // namespace

BENCHMARK_MAIN();
