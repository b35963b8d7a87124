// What does mix_plan datasets cost a rank's step, beside one dataset alone? And to find a place in a long
// run?

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "rota/run.hpp"

namespace {

using rota::MixtureEnd;
using rota::Run;
using rota::RunData;
using rota::RunSlice;
using rota::Tail;

constexpr std::int64_t kRanks = 64;
constexpr std::int64_t kPerRank = 32;

/// Weights that are no simple ratios, so that the period is as long as it may be.
std::vector<double> weights_of(std::int64_t datasets) {
  std::mt19937_64 random(1);
  std::vector<double> weights;
  for (std::int64_t d = 0; d < datasets; ++d) {
    weights.push_back(std::uniform_real_distribution<double>(0.001, 0.9)(random));
  }
  return weights;
}

Run mixture(std::int64_t datasets) {
  std::vector<RunData> data;
  for (std::int64_t d = 0; d < datasets; ++d) data.push_back({.samples = 10'000'000 + d});
  return Run(data, {.global_batch_size = kRanks * kPerRank,
                    .weights = weights_of(datasets),
                    .end = MixtureEnd::steps,
                    .steps = 1'000'000'000});
}

/// Steps of the middle rank, 32 samples each, ids and all.
void step(benchmark::State& state, const Run& begun) {
  Run run = begun;
  RunSlice slice;
  for (auto _ : state) {
    if (!run.slice(slice, {.rank = kRanks / 2, .size = kRanks})) run.restart();
    run.advance(slice);
    benchmark::DoNotOptimize(slice.ids.data());
  }
  state.SetItemsProcessed(state.iterations() * kPerRank);
}

void mixed(benchmark::State& state) { step(state, mixture(state.range(0))); }
BENCHMARK(mixed)->ArgName("D")->Arg(2)->Arg(10)->Arg(100);

void alone(benchmark::State& state) {
  step(state,
       Run(10'000'000, {.global_batch_size = kRanks * kPerRank, .tail = Tail::carry, .epochs = 1'000'000}));
}
BENCHMARK(alone);

/// What a resume does: the period made anew, all cursors at a place, and the slice of its step.
void restore(benchmark::State& state) {
  std::vector<std::int64_t> cursors(static_cast<std::size_t>(state.range(0) * 512));
  RunSlice slice;
  for (auto _ : state) {
    Run run = mixture(state.range(0));
    run.seek({.consumed = 1'000'000'000});
    run.cursors(0, cursors);
    run.slice(slice, {.size = kRanks});
    benchmark::DoNotOptimize(slice.ids.data());
  }
}
BENCHMARK(restore)->ArgName("D")->Arg(2)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

/// The naive rival: draw the dataset of each sample of the run so far once more.
void replay_draws(benchmark::State& state) {
  const auto weights = weights_of(10);
  std::discrete_distribution<int> draw(weights.begin(), weights.end());
  for (auto _ : state) {
    std::mt19937_64 random(1);
    std::vector<std::int64_t> counts(weights.size());
    for (std::int64_t n = 0; n < 100'000'000; ++n) ++counts[static_cast<std::size_t>(draw(random))];
    benchmark::DoNotOptimize(counts.data());
  }
}
BENCHMARK(replay_draws)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
