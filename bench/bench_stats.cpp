// Which part of a batch's time on processors goes into its statistics? Batches of 32 samples from the page
// cache, of which each worker times a read; and what is noted of such a batch, done alone, in the same run.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/read_tally.hpp"
#include "loader/loop_watch.hpp"
#include "loader/work_done.hpp"
#include "rota/catalog.hpp"
#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace {

using rota::internal::ReadClock;
using rota::internal::seconds_since;

constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kSamples = 1 << 17;

/// Removed in the end.
class Tokens {
 public:
  explicit Tokens(std::int64_t sample_bytes) {
    std::filesystem::create_directory(path_);
    std::ofstream(path_ / "all.tokens")
        << std::string(static_cast<std::size_t>(kSamples * sample_bytes), 'x');
  }
  ~Tokens() { std::filesystem::remove_all(path_); }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("rota-bench-stats-" + std::to_string(getpid()));
};

// Of all threads of this process.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double seconds_of_batches(rota::Loader& loader, std::int64_t batches) {
  const double before = processor_seconds();
  for (std::int64_t k = 0; k < batches; ++k) benchmark::DoNotOptimize((*loader.next()).size());
  return (processor_seconds() - before) / static_cast<double>(batches);
}

// As Loader, Ring and BatchMaker do it; `reads` is how many calls of a worker are timed.
double seconds_of_stats(int workers, int reads, std::int64_t batches) {
  rota::LoaderStats stats;
  stats.workers.resize(static_cast<std::size_t>(workers));
  rota::internal::LoopWatch loop;
  const auto begun = ReadClock::now();
  for (std::int64_t k = 0; k < batches; ++k) {
    loop.begin();
    rota::BatchTimes times;
    for (rota::LoaderStats::Worker& worker : stats.workers) {
      rota::internal::WorkDone done;
      done.begin_read();
      for (int r = 0; r < reads; ++r)
        done.tally.add(seconds_since(ReadClock::now()), [] { return "a file"; });
      done.end_read();
      done.add_to(times);
      done.add_to(worker);
    }
    loop.end(times, kBatch, 1);
  }
  benchmark::DoNotOptimize(stats);
  benchmark::DoNotOptimize(loop);
  return seconds_since(begun) / static_cast<double>(batches);
}

void stats_share(benchmark::State& state) {
  const std::int64_t sample_bytes = state.range(0);
  const auto workers = static_cast<int>(state.range(1));
  const Tokens data(sample_bytes);
  const rota::Catalog catalog(data.path(), {.access = rota::Access::cached});
  const auto source = rota::open(catalog, rota::TokensOptions{.length = sample_bytes / 2});
  rota::Loader loader(source, {.global_batch_size = kBatch, .epochs = rota::kEndless, .workers = workers});
  seconds_of_batches(loader, kSamples / kBatch);  // brings it into the page cache
  double batch = 0;
  double noted = 0;
  for ([[maybe_unused]] const auto step : state) {
    batch += seconds_of_batches(loader, 2000);
    noted += seconds_of_stats(workers, 1, 2000);
  }
  state.counters["percent"] = 100 * noted / batch;
}
BENCHMARK(stats_share)
    ->ArgsProduct({{16, 1024, 16384}, {1, 2}})
    ->ArgNames({"bytes", "workers"})
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
