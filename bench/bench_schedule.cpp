// How long does a rank take to work out its next step: which samples, in which order? And to go to any place?

#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "order/schedule.hpp"

namespace {

using rota::Position;
using rota::SampleId;
using rota::Shuffle;
using rota::Tail;
using rota::internal::GlobalBatch;
using rota::internal::Order;
using rota::internal::Schedule;
using rota::internal::ShardPlan;
using rota::internal::ShardSpan;
using rota::internal::Steps;

constexpr std::int64_t kPerRank = 32;
constexpr std::int64_t kMeanLength = 1'000'000;

/// All lengths differ: 1/2 to 3/2 of the mean, in no order.
ShardPlan ragged(std::int64_t shards) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(shards));
  const std::int64_t stride = 7919;  // a prime: the k-th multiple modulo L visits every value
  for (std::int64_t s = 0; s < shards; ++s) {
    lengths[static_cast<std::size_t>(s)] =
        kMeanLength / 2 + s * stride % shards * (kMeanLength / shards > 0 ? kMeanLength / shards : 1);
  }
  return ShardPlan::ragged(lengths);
}

ShardPlan plan(bool is_ragged, std::int64_t shards) {
  return is_ragged ? ragged(shards) : ShardPlan::equal(kMeanLength * shards, shards);
}

/// One rank's step of 32 samples, ids and all, by the world's middle rank.
void step(benchmark::State& state, Shuffle shuffle, bool is_ragged) {
  const std::int64_t ranks = state.range(0);
  const std::int64_t shards = state.range(1);
  const Order order(plan(is_ragged, shards), shuffle, 42);
  const Steps steps(order.plan().samples(), Tail::partial, 1);
  Schedule schedule(order);
  const auto epoch = order.epoch(0);
  GlobalBatch batch;
  std::vector<ShardSpan> spans;
  std::vector<SampleId> ids(kPerRank);
  // From the middle of the epoch on, where shards end.
  const Position start{.epoch = 0, .consumed = order.plan().samples() / 2, .step = 0};
  Position at = start;
  const std::int64_t first = ranks / 2 * kPerRank;
  for (auto _ : state) {
    if (!steps.batch(at, ranks * kPerRank, batch) || batch.next.epoch > 0) {
      at = start;
      continue;
    }
    schedule.slice(batch, first, first + kPerRank, spans);
    epoch.samples(spans, ids.data());
    benchmark::DoNotOptimize(ids.data());
    at = batch.next;
  }
  state.SetItemsProcessed(state.iterations() * kPerRank);
  state.counters["ns_per_sample"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kPerRank) / 1e9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void worlds(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "L"});
  for (const std::int64_t ranks : {1, 64, 100'000}) {
    for (const std::int64_t shards : {256, 16'384, 1'000'000}) bench->Args({ranks, shards});
  }
}
BENCHMARK_CAPTURE(step, global_equal, Shuffle::global, false)->Apply(worlds);
BENCHMARK_CAPTURE(step, global_ragged, Shuffle::global, true)->Apply(worlds);
BENCHMARK_CAPTURE(step, within_equal, Shuffle::within, false)->Apply(worlds);
BENCHMARK_CAPTURE(step, within_ragged, Shuffle::within, true)->Apply(worlds);

/// What a resume does once the checkpoint is read: a schedule made anew, all cursors at the place worked out
/// (and checked against the saved ones, by the caller), and the first step's slice.
void restore(benchmark::State& state, bool is_ragged) {
  constexpr std::int64_t kShards = 16'384;
  constexpr std::int64_t kSamples = 1'000'000'000'000;
  std::vector<std::int64_t> lengths(kShards, kSamples / kShards);
  for (std::size_t s = 0; s < lengths.size(); ++s) lengths[s] += static_cast<std::int64_t>(s) - kShards / 2;
  const ShardPlan plan = is_ragged ? ShardPlan::ragged(lengths) : ShardPlan::equal(kSamples, kShards);
  const Order order(plan, Shuffle::global, 42);
  const Position at{.epoch = 3, .consumed = plan.samples() / 100 * state.range(0), .step = 0};
  std::vector<std::int64_t> cursors(2 * kShards);
  GlobalBatch batch;
  std::vector<ShardSpan> spans;
  for (auto _ : state) {
    Schedule schedule(order);
    schedule.cursors(at, 0, cursors);
    Steps(plan.samples(), Tail::partial, 10).batch(at, 4096, batch);
    schedule.slice(batch, 0, 64, spans);
    benchmark::DoNotOptimize(spans.data());
  }
}
BENCHMARK_CAPTURE(restore, equal, false)
    ->ArgName("percent")
    ->Arg(1)
    ->Arg(50)
    ->Arg(99)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(restore, ragged, true)
    ->ArgName("percent")
    ->Arg(1)
    ->Arg(50)
    ->Arg(99)
    ->Unit(benchmark::kMicrosecond);

/// The naive rival: walk through the epoch from its start, one turn at a time. 10^9 of the 10^12 samples, so
/// that it ends.
void replay_turns(benchmark::State& state) {
  constexpr std::int64_t kTurns = 1'000'000'000;
  constexpr std::size_t kShards = 16'384;
  std::vector<std::int64_t> cursors(kShards);
  for (auto _ : state) {
    std::size_t shard = 0;
    for (std::int64_t turn = 0; turn < kTurns; ++turn) {
      ++cursors[shard];
      benchmark::DoNotOptimize(cursors[shard]);
      shard = shard + 1 == kShards ? 0 : shard + 1;
    }
  }
}
BENCHMARK(replay_turns)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
