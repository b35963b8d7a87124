// What it costs to settle samples by hand, beside std::unordered_set, which keeps names as anybody would.
//
//   ./run bench settle

#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <unordered_set>
#include <vector>

#include "rota/loader.hpp"
#include "rota/resume.hpp"

namespace {

// Samples without bytes.
class Nothing : public rota::Source {
 public:
  explicit Nothing(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> part_sizes() const override {
    return std::vector<std::int64_t>(std::size_t{1} << 20, size_ >> 20);
  }
  const std::vector<rota::Field>& fields() const override { return fields_; }
  void read(std::span<const rota::SampleId> /*ids*/, const rota::BatchView& /*out*/) const override {}

 private:
  std::int64_t size_;
  std::vector<rota::Field> fields_{{.name = "x", .dtype = rota::DType::uint8, .shape = {1}}};
};

constexpr std::int64_t kBatch = 1024;

rota::Loader loader_with_open(std::int64_t open, bool is_by_file = false) {
  rota::Loader loader(std::make_shared<Nothing>(std::int64_t{1} << (is_by_file ? 22 : 40)),
                      {.global_batch_size = kBatch,
                       .shards = is_by_file ? rota::kFileShards : 0,
                       .settle = rota::Settle::by_hand,
                       .open_limit = open + 2 * kBatch,
                       .workers = 0});
  for (std::int64_t out = 0; out < open; out += kBatch) benchmark::DoNotOptimize(loader.next());
  return loader;
}

struct Columns {
  explicit Columns(const rota::Batch& batch)
      : ids(batch.ids().begin(), batch.ids().end()), epochs(batch.epochs().begin(), batch.epochs().end()) {}
  std::vector<rota::SampleId> ids;
  std::vector<std::int64_t> epochs;
};

// Samples of a batch that were handed out, settled one by one in any order, or at once, among so many that
// are open.
template <bool by_batch>
void settle(benchmark::State& state) {
  rota::Loader loader = loader_with_open(state.range(0));
  std::mt19937_64 random(1);
  for (auto _ : state) {
    state.PauseTiming();
    const auto batch = loader.next();
    Columns columns(*batch);
    std::ranges::shuffle(columns.ids, random);
    state.ResumeTiming();
    if constexpr (by_batch) {
      loader.settle(*batch);
    } else {
      for (std::size_t i = 0; i < columns.ids.size(); ++i)
        loader.settle(std::span(&columns.ids[i], 1), std::span(&columns.epochs[i], 1));
    }
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(settle<false>)->Name("Settle/OneByOne")->Arg(0)->Arg(16'384)->Arg(1 << 20);
BENCHMARK(settle<true>)->Name("Settle/Batches")->Arg(0)->Arg(16'384)->Arg(1 << 20);

void naive(benchmark::State& state) {
  std::unordered_set<std::int64_t> open;
  std::int64_t next = 0;
  for (; next < state.range(0); ++next) open.insert(next * 7919);
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<std::int64_t> ids(kBatch);
    for (std::int64_t& id : ids) open.insert(id = ++next * 7919);
    state.ResumeTiming();
    for (const std::int64_t id : ids) open.erase(id);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(naive)->Name("Set/OneByOne")->Arg(0)->Arg(16'384)->Arg(1 << 20);

// A state with so many open samples, of equal shards, or of 2^20 files.
void state_of_open(benchmark::State& state) {
  rota::Loader loader = loader_with_open(state.range(0), state.range(1) != 0);
  const auto last = loader.next();  // of which one stays open, so that no state goes back before the others
  loader.settle(last->ids().subspan(1), last->epochs().subspan(1));
  for (auto _ : state) benchmark::DoNotOptimize(rota::state(loader));
}
BENCHMARK(state_of_open)
    ->Name("Settle/State")
    ->ArgsProduct({{1024, 1 << 20}, {0, 1}})
    ->ArgNames({"open", "files"})
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
