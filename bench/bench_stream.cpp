// What does it cost that samples are taken from streams? The samples of one HDF5 file in the page cache, in
// order, by the stream loader and, in the same run, by the indexed loader; and what a filter and a shuffle
// buffer add.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"
#include "rota/stream_loader.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Pipeline = std::shared_ptr<const rota::StreamSource>;

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kShards = 64;
constexpr std::int64_t kFileBytes = std::int64_t{128} << 20;

/// A file of `kFileBytes` in rows of `row_bytes`, removed when the program ends.
class DataFile {
 public:
  explicit DataFile(std::int64_t row_bytes)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("rota-bench-stream-{}-{}.h5", getpid(), row_bytes)) {
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(kFileBytes) / 8);
    std::mt19937_64 random(1);
    for (auto& word : bytes) word = random();
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extents[] = {static_cast<hsize_t>(kFileBytes / row_bytes), static_cast<hsize_t>(row_bytes)};
    const hid_t space = H5Screate_simple(2, extents, nullptr);
    const hid_t data = H5Dcreate2(file, "x", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0) {
      throw std::runtime_error("write " + path_.string());
    }
    H5Dclose(data);
    H5Sclose(space);
    H5Fclose(file);
  }
  ~DataFile() { std::filesystem::remove(path_); }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  [[nodiscard]] std::shared_ptr<const rota::Source> open() const { return rota::open(path_, "hdf5"); }

 private:
  std::filesystem::path path_;
};

const DataFile& data_file(std::int64_t row_bytes) {
  static std::map<std::int64_t, DataFile> files;
  return files.try_emplace(row_bytes, row_bytes).first->second;
}

/// Seconds for so many batches.
template <typename AnyLoader>
double take(AnyLoader& loader, std::int64_t batches) {
  const auto start = Clock::now();
  for (std::int64_t k = 0; k < batches; ++k) benchmark::DoNotOptimize(loader.next());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One iteration: some batches by a stream loader, then as many by the indexed one.
void measure(benchmark::State& state, const std::function<Pipeline(Pipeline)>& transformed) {
  const std::int64_t row_bytes = state.range(0);
  const int workers = static_cast<int>(state.range(1));
  const auto source = data_file(row_bytes).open();
  const std::int64_t batches =
      (std::int64_t{256} << 20) / (kBatch * std::max<std::int64_t>(row_bytes, 2 << 10));
  rota::StreamLoader streams(transformed(rota::as_stream(source, kShards)),
                             {.global_batch_size = kBatch, .epochs = rota::kEndless, .workers = workers});
  rota::Loader indexed(source, {.global_batch_size = kBatch,
                                .shards = kShards,
                                .shuffle = rota::Shuffle::none,
                                .epochs = rota::kEndless,
                                .workers = workers});
  take(streams, 50);
  take(indexed, 50);
  double stream_seconds = 0;
  double indexed_seconds = 0;
  for (auto _ : state) {
    const double seconds = take(streams, batches);
    state.SetIterationTime(seconds);
    stream_seconds += seconds;
    indexed_seconds += take(indexed, batches);
  }
  const auto samples = static_cast<double>(state.iterations() * batches * kBatch);
  state.counters["samples/s"] = samples / stream_seconds;
  state.counters["indexed/s"] = samples / indexed_seconds;
  state.counters["of_indexed"] = indexed_seconds / stream_seconds;
  state.SetBytesProcessed(state.iterations() * batches * kBatch * row_bytes);
}

void plain_stream(benchmark::State& state) {
  measure(state, [](Pipeline source) { return source; });
}
void all_kept(benchmark::State& state) {
  measure(state, [](Pipeline source) {
    return rota::filter(std::move(source), [](std::int64_t, const rota::StreamSample&) { return true; });
  });
}
void shuffle_buffer_of_100(benchmark::State& state) {
  measure(state, [](Pipeline source) { return rota::shuffle_buffer(std::move(source), 100, 1); });
}

BENCHMARK(plain_stream)
    ->ArgNames({"bytes", "workers"})
    ->ArgsProduct({{1 << 10, 10 << 10, 100 << 10}, {0, 1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(all_kept)
    ->ArgNames({"bytes", "workers"})
    ->ArgsProduct({{1 << 10, 10 << 10}, {1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(shuffle_buffer_of_100)
    ->ArgNames({"bytes", "workers"})
    ->ArgsProduct({{1 << 10, 10 << 10}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
