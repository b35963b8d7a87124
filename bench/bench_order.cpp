// How long does it take to say which sample comes next? Beside a shuffled table: making it, and looking ids
// up in it.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "order/order.hpp"
#include "rota/communicator.hpp"
#include "source/draw.hpp"

namespace {

using rota::SampleId;
using rota::Shuffle;
using rota::internal::Draws;
using rota::internal::Order;
using rota::internal::ShardPlan;

constexpr std::int64_t kShards = 256;
constexpr std::int64_t kRun = 64;  // consecutive positions asked for at once

void samples(benchmark::State& state, Shuffle shuffle) {
  const std::int64_t n = state.range(0);
  const auto order = Order(ShardPlan::equal(n, kShards), shuffle, 42).epoch(0);
  std::vector<SampleId> ids(kRun);
  const std::int64_t shard_length = n / kShards;
  rota::internal::ShardSpan span{.count = kRun};
  for (auto _ : state) {
    order.samples(std::span(&span, 1), ids.data());
    benchmark::DoNotOptimize(ids.data());
    span.shard.value = (span.shard.value + 1) % kShards;
    span.position = (span.position + 7919) % (shard_length - kRun);
  }
  state.SetItemsProcessed(state.iterations() * kRun);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("N");
  for (const std::int64_t n :
       {std::int64_t{1'000'000}, std::int64_t{1'000'000'000}, std::int64_t{1'000'000'000'000}})
    bench->Arg(n);
  for (const int bits : {20, 30, 40}) bench->Arg((std::int64_t{1} << bits) + 1);
}

BENCHMARK_CAPTURE(samples, global, Shuffle::global)->Apply(sizes);
BENCHMARK_CAPTURE(samples, within, Shuffle::within)->Apply(sizes);
BENCHMARK_CAPTURE(samples, block, Shuffle::block)->Apply(sizes);
BENCHMARK_CAPTURE(samples, none, Shuffle::none)->Apply(sizes);

void inverse(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const auto order = Order(ShardPlan::equal(n, kShards), Shuffle::global, 42).epoch(0);
  std::int64_t id = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(order.locate({id}));
    id = (id + 7919) % n;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(inverse)->Apply(sizes);

// The naive way, once an epoch.
void make_shuffled_table(benchmark::State& state) {
  std::vector<std::int64_t> table(static_cast<std::size_t>(state.range(0)));
  std::mt19937_64 random(1);
  for (auto _ : state) {
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
    benchmark::DoNotOptimize(table.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(make_shuffled_table)->ArgName("N")->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond);

// The limit: the table is there already.
void look_up_in_table(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<std::int64_t> table(n);
  std::iota(table.begin(), table.end(), 0);
  std::vector<std::int64_t> ids(kRun);
  std::size_t at = 0;
  for (auto _ : state) {
    std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(at), kRun, ids.begin());
    benchmark::DoNotOptimize(ids.data());
    at = (at + 7919 * kRun) % (n - kRun);
  }
  state.SetItemsProcessed(state.iterations() * kRun);
}
BENCHMARK(look_up_in_table)->ArgName("N")->Arg(1'000'000)->Arg(100'000'000);

std::vector<double> some_weights(std::int64_t n) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < n; ++i) weights.push_back(static_cast<double>(1 + i % 7));
  return weights;
}

// The sample of a draw, anywhere in any epoch; beside the draws of std, which have no places.
void draw(benchmark::State& state, bool is_weighted) {
  const std::int64_t n = state.range(0);
  const auto draws = is_weighted ? Draws::weighted({}, n, some_weights(n), n, 1) : Draws::repeated(n, 2.5, 1);
  std::int64_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(draws.sample({at}, at & 7));
    at = (at + 7919) % draws.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(draw, repeat, false)->ArgName("N")->Arg(1'000'000)->Arg(10'000'000);
BENCHMARK_CAPTURE(draw, weighted, true)->ArgName("N")->Arg(1'000'000)->Arg(10'000'000);

void draw_by_std(benchmark::State& state) {
  const auto weights = some_weights(state.range(0));
  std::discrete_distribution<std::int64_t> draws(weights.begin(), weights.end());
  std::mt19937_64 random(1);
  for (auto _ : state) benchmark::DoNotOptimize(draws(random));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(draw_by_std)->ArgName("N")->Arg(1'000'000)->Arg(10'000'000);

}  // namespace

BENCHMARK_MAIN();
