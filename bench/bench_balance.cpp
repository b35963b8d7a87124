// What it costs to deal a step in balance, ids and lengths included, and how even it gets: beside equal
// slices, and beside a sort of as many numbers.
//
//   ./run bench balance

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "rota/balance.hpp"
#include "rota/run.hpp"
#include "rota/source.hpp"

namespace {

constexpr std::int64_t kSamples = 10'000'000;

// Texts: log-normal, median 665, sigma 1.0, cut at 8,192.
const rota::Lengths& lengths() {
  static const rota::Lengths all = [] {
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> length(std::log(665), 1.0);
    std::vector<std::int32_t> some(kSamples);
    for (auto& one : some) one = static_cast<std::int32_t>(std::clamp(length(random), 1.0, 8192.0));
    return rota::Lengths(std::span<const std::int32_t>(some));
  }();
  return all;
}

rota::Run run_of(benchmark::State& state) {
  return rota::Run(kSamples,
                   {.global_batch_size = state.range(0) * state.range(1), .epochs = rota::kEndless});
}

// state: ranks, samples of each, linear, equal_counts.
void in_balance(benchmark::State& state) {
  rota::Run run = run_of(state);
  const rota::Balance balance{
      .columns = {{.lengths = lengths(), .linear = static_cast<double>(state.range(2)), .quadratic = 1}},
      .equal_counts = state.range(3) != 0};
  const rota::World world{.size = static_cast<int>(state.range(0))};
  rota::RunSlice slice;
  double after = 0;
  double before = 0;
  for (auto _ : state) {
    run.slice(slice, world, rota::Split::balanced, balance);
    run.advance(slice);
    const double bound = std::max(slice.costs.global / world.size, slice.costs.largest);
    after += slice.costs.most / bound;
    before += slice.costs.most_by_sample / bound;
  }
  state.counters["before"] = benchmark::Counter(before, benchmark::Counter::kAvgIterations);
  state.counters["after"] = benchmark::Counter(after, benchmark::Counter::kAvgIterations);
}
BENCHMARK(in_balance)
    ->Args({8, 32, 8192, 1})
    ->Args({8, 32, 8192, 0})
    ->Args({64, 16, 8192, 1})
    ->Args({64, 16, 8192, 0})
    ->Args({64, 16, 0, 1})
    ->Args({64, 16, 0, 0})
    ->Args({64, 1024, 8192, 1})
    ->Args({4096, 16, 8192, 1})
    ->Iterations(1000)
    ->Unit(benchmark::kMicrosecond);

void equal_slices(benchmark::State& state) {
  rota::Run run = run_of(state);
  rota::RunSlice slice;
  for (auto _ : state) {
    run.slice(slice, {.size = static_cast<int>(state.range(0))});
    run.advance(slice);
  }
}
BENCHMARK(equal_slices)->Args({64, 16})->Args({64, 1024})->Unit(benchmark::kMicrosecond);

// What any dealing by cost takes at least.
void sort_alone(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> costs(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    std::ranges::generate(costs, random);
    state.ResumeTiming();
    std::ranges::sort(costs);
    benchmark::DoNotOptimize(costs.data());
  }
}
BENCHMARK(sort_alone)->Arg(1 << 10)->Arg(1 << 16)->Unit(benchmark::kMicrosecond);

// A source of an index in memory: its lengths asked for, by one process.
class Indexed : public rota::Source {
 public:
  std::int64_t size() const override { return std::int64_t{100'000'000}; }
  const std::vector<rota::Field>& fields() const override { return fields_; }
  void rows(std::span<const rota::SampleId> ids, std::size_t /*field*/,
            std::span<std::int64_t> out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i)
      out[i] =
          ends_[static_cast<std::size_t>(ids[i].value + 1)] - ends_[static_cast<std::size_t>(ids[i].value)];
  }
  void read(std::span<const rota::SampleId> /*ids*/, const rota::BatchView& /*out*/) const override {}

 private:
  std::vector<rota::Field> fields_{{.name = "tokens", .dtype = rota::DType::uint16, .ragged = true}};
  std::vector<std::int64_t> ends_ = [] {
    std::vector<std::int64_t> ends(100'000'001);
    std::iota(ends.begin(), ends.end(), 0);
    return ends;
  }();
};

void ask_for_lengths(benchmark::State& state) {
  const Indexed source;
  for (auto _ : state) benchmark::DoNotOptimize(rota::lengths_of(source, "tokens", 2).most());
  state.SetItemsProcessed(state.iterations() * source.size());
}
BENCHMARK(ask_for_lengths)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
