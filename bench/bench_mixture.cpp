// What does mix_plan datasets cost a rank's step, beside one dataset alone? And to find a place in a long
// run?

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "order/mixture_schedule.hpp"
#include "order/schedule.hpp"

namespace {

using rota::MixtureEnd;
using rota::MixtureState;
using rota::Position;
using rota::SampleId;
using rota::Shuffle;
using rota::Tail;
using rota::internal::GlobalBatch;
using rota::internal::MixtureSchedule;
using rota::internal::Order;
using rota::internal::Schedule;
using rota::internal::ShardPlan;
using rota::internal::ShardSpan;
using rota::internal::WeightedTurns;

constexpr std::int64_t kRanks = 64;
constexpr std::int64_t kPerRank = 32;

std::vector<Order> orders_of(std::int64_t datasets) {
  std::vector<Order> orders;
  for (std::int64_t d = 0; d < datasets; ++d) {
    orders.emplace_back(ShardPlan::equal(10'000'000 + d, 256), Shuffle::global,
                        static_cast<std::uint64_t>(d));
  }
  return orders;
}

/// Weights that are no simple ratios, so that the period is as long as it may be.
std::vector<double> weights_of(std::int64_t datasets) {
  std::mt19937_64 random(1);
  std::vector<double> weights;
  for (std::int64_t d = 0; d < datasets; ++d) {
    weights.push_back(std::uniform_real_distribution<double>(0.001, 0.9)(random));
  }
  return weights;
}

MixtureSchedule mixture(const std::vector<Order>& orders) {
  MixtureState state{.weights = rota::internal::quantise(weights_of(std::ssize(orders))),
                     .counts = std::vector<std::int64_t>(orders.size())};
  return {orders, {.end = MixtureEnd::steps, .steps = 1'000'000'000}, WeightedTurns(std::move(state))};
}

/// Steps of the middle rank, 32 samples each, ids and all.
template <typename AnySchedule>
void step(benchmark::State& state, AnySchedule& schedule, const std::vector<Order>& orders) {
  std::vector<rota::internal::EpochOrder> epochs;
  epochs.reserve(orders.size());
  for (const Order& order : orders) epochs.push_back(order.epoch(0));
  GlobalBatch batch;
  std::vector<ShardSpan> spans;
  std::vector<SampleId> ids(kPerRank);
  Position at;
  for (auto _ : state) {
    if (!schedule.batch(at, kRanks * kPerRank, batch)) at = {};
    schedule.slice(batch, kRanks / 2 * kPerRank, (kRanks / 2 + 1) * kPerRank, spans);
    std::size_t slot = 0;
    for (const ShardSpan& span : spans) {
      epochs[static_cast<std::size_t>(span.dataset)].samples(std::span(&span, 1), ids.data() + slot);
      slot += static_cast<std::size_t>(span.count);
    }
    benchmark::DoNotOptimize(ids.data());
    at = batch.next;
  }
  state.SetItemsProcessed(state.iterations() * kPerRank);
}

void mixed(benchmark::State& state) {
  const auto orders = orders_of(state.range(0));
  MixtureSchedule schedule = mixture(orders);
  step(state, schedule, orders);
}
BENCHMARK(mixed)->ArgName("D")->Arg(2)->Arg(10)->Arg(100);

void alone(benchmark::State& state) {
  const auto orders = orders_of(1);
  Schedule schedule(orders.front(), Tail::carry, 1'000'000);
  step(state, schedule, orders);
}
BENCHMARK(alone);

/// What a resume does: the period made anew, all cursors at a place, and the slice of its step.
void restore(benchmark::State& state) {
  const auto orders = orders_of(state.range(0));
  const Position at{.consumed = 1'000'000'000};
  std::vector<std::int64_t> cursors(static_cast<std::size_t>(state.range(0) * 512));
  GlobalBatch batch;
  std::vector<ShardSpan> spans;
  for (auto _ : state) {
    MixtureSchedule schedule = mixture(orders);
    schedule.cursors(at, 0, cursors);
    schedule.batch(at, kRanks * kPerRank, batch);
    schedule.slice(batch, 0, kPerRank, spans);
    benchmark::DoNotOptimize(spans.data());
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
