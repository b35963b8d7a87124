// How much of the storage's speed reaches the training loop? Samples at random from one HDF5 file in the page
// cache, read by the loader and, in the same run, by the limit (a bare pread of the same bytes by as many
// threads into memory of the loader's footprint) and by the naive way (H5Dread of one row after the other).

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kFileBytes = std::int64_t{256} << 20;
constexpr std::int64_t kReadAhead = 4;

/// A file of `kFileBytes` in rows of `row_bytes`, written once and removed when the program ends.
class DataFile {
 public:
  explicit DataFile(std::int64_t row_bytes)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("rota-bench-{}-{}.h5", getpid(), row_bytes)),
        rows_(kFileBytes / row_bytes),
        row_bytes_(row_bytes) {
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(kFileBytes) / 8);
    std::mt19937_64 random(1);
    for (auto& word : bytes) word = random();
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extents[] = {static_cast<hsize_t>(rows_), static_cast<hsize_t>(row_bytes)};
    const hid_t space = H5Screate_simple(2, extents, nullptr);
    const hid_t data = H5Dcreate2(file, "x", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0) {
      throw std::runtime_error("write " + path_.string());
    }
    offset_ = static_cast<std::int64_t>(H5Dget_offset(data));
    H5Dclose(data);
    H5Sclose(space);
    H5Fclose(file);
  }
  ~DataFile() { std::filesystem::remove(path_); }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] std::int64_t offset_of(std::int64_t row) const { return offset_ + row * row_bytes_; }

 private:
  std::filesystem::path path_;
  std::int64_t rows_;
  std::int64_t row_bytes_;
  std::int64_t offset_ = 0;
};

const DataFile& data_file(std::int64_t row_bytes) {
  static std::map<std::int64_t, DataFile> files;
  return files.try_emplace(row_bytes, row_bytes).first->second;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Reads batches of `ids` with `threads` threads, each its slice of every batch, and nothing else.
class BareReader {
 public:
  BareReader(const DataFile& file, std::int64_t footprint_batches)
      : file_(file),
        descriptor_(open(file.path().c_str(), O_RDONLY | O_CLOEXEC)),
        batches_(footprint_batches),
        memory_(static_cast<std::size_t>(footprint_batches * kBatch * file.row_bytes()), 1) {}
  ~BareReader() { close(descriptor_); }
  BareReader(const BareReader&) = delete;
  BareReader& operator=(const BareReader&) = delete;

  double run(const std::vector<std::int64_t>& ids, int threads) {
    const auto start = Clock::now();
    std::vector<std::jthread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back([&, t] { slice(ids, t, threads); });
    slice(ids, 0, threads);
    others.clear();
    return seconds_since(start);
  }

 private:
  void slice(const std::vector<std::int64_t>& ids, std::int64_t thread, std::int64_t threads) {
    for (std::size_t b = 0; b * kBatch < ids.size(); ++b) {
      const auto rotation = static_cast<std::int64_t>(b) % batches_;
      for (std::int64_t i = thread * kBatch / threads; i < (thread + 1) * kBatch / threads; ++i) {
        char* out = memory_.data() + (rotation * kBatch + i) * file_.row_bytes();
        const std::int64_t row = ids[b * kBatch + static_cast<std::size_t>(i)];
        if (pread(descriptor_, out, static_cast<std::size_t>(file_.row_bytes()), file_.offset_of(row)) !=
            file_.row_bytes()) {
          std::abort();
        }
      }
    }
  }

  const DataFile& file_;
  int descriptor_;
  std::int64_t batches_;
  std::vector<char> memory_;
};

/// The naive way: one H5Dread a sample.
double read_with_hdf5(const DataFile& file, const std::vector<std::int64_t>& ids) {
  std::vector<char> row(static_cast<std::size_t>(file.row_bytes()));
  const hid_t handle = H5Fopen(file.path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(handle, "x", H5P_DEFAULT);
  const hid_t space = H5Dget_space(data);
  const hsize_t count[] = {1, static_cast<hsize_t>(file.row_bytes())};
  const hid_t memory = H5Screate_simple(2, count, nullptr);
  const auto start = Clock::now();
  for (const std::int64_t id : ids) {
    const hsize_t first[] = {static_cast<hsize_t>(id), 0};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, first, nullptr, count, nullptr);
    if (H5Dread(data, H5T_NATIVE_UINT8, memory, space, H5P_DEFAULT, row.data()) < 0) std::abort();
    benchmark::DoNotOptimize(row.data());
  }
  const double seconds = seconds_since(start);
  H5Sclose(memory);
  H5Sclose(space);
  H5Dclose(data);
  H5Fclose(handle);
  return seconds;
}

/// One iteration: some batches by the loader, then the same ids by the limit (and by the naive way).
void random_samples(benchmark::State& state) {
  const DataFile& file = data_file(state.range(0));
  const int workers = static_cast<int>(state.range(1));
  const std::int64_t shards = state.range(2);
  // Long enough (0.1 s and more) for the scheduler to have spread the threads over the cores.
  const std::int64_t batches =
      (std::int64_t{512} << 20) / (kBatch * std::max<std::int64_t>(file.row_bytes(), 2 << 10));
  rota::Loader loader(rota::open(file.path(), "hdf5"), {.global_batch_size = kBatch,
                                                        .shards = shards,
                                                        .seed = 7,
                                                        .tail = rota::Tail::carry,
                                                        .epochs = rota::kEndless,
                                                        .workers = workers,
                                                        .read_ahead_batches = kReadAhead});
  BareReader bare(file, workers == 0 ? 1 : kReadAhead + 1);
  double loader_seconds = 0;
  double bare_seconds = 0;
  double naive_seconds = 0;
  std::vector<std::int64_t> ids;
  for (int k = 0; k < 50; ++k) static_cast<void>(loader.next());
  for (auto _ : state) {
    ids.clear();
    const auto start = Clock::now();
    for (std::int64_t k = 0; k < batches; ++k) {
      const auto batch = loader.next();
      for (const rota::SampleId id : batch->ids()) ids.push_back(id.value);
    }
    const double seconds = seconds_since(start);
    state.SetIterationTime(seconds);
    loader_seconds += seconds;
    bare_seconds += bare.run(ids, std::max(workers, 1));
    if (shards != 256) continue;
    ids.resize(ids.size() / 16);
    naive_seconds += 16 * read_with_hdf5(file, ids);
  }
  const auto samples = static_cast<double>(state.iterations() * batches * kBatch);
  state.counters["samples/s"] = samples / loader_seconds;
  state.counters["pread/s"] = samples / bare_seconds;
  state.counters["of_pread"] = bare_seconds / loader_seconds;
  if (shards == 256) state.counters["times_h5dread"] = naive_seconds / loader_seconds;
  state.SetBytesProcessed(state.iterations() * batches * kBatch * file.row_bytes());
}
BENCHMARK(random_samples)
    ->ArgNames({"bytes", "workers", "L"})
    ->ArgsProduct({{1 << 10, 10 << 10, 100 << 10}, {0, 1, 2}, {256}})
    ->ArgsProduct({{1 << 10}, {0, 1}, {64, 1024, 65'536}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// What does it cost that `as` looks at the type? Batches of `kBatch` samples in the cache are summed up
// through a view taken once a batch, one taken once a sample, and the bare pointer; the fastest of many times
// counts.
template <typename T>
void sum_through_views(benchmark::State& state) {
  const auto length = static_cast<std::size_t>(state.range(0));
  const std::vector<rota::Field> fields{{.name = "x", .dtype = rota::kDTypeOf<T>, .shape = {state.range(0)}}};
  std::vector<T> memory(kBatch * length, T{1});
  const rota::Tensor tensor{.field = fields.data(), .bytes = std::as_writable_bytes(std::span(memory))};
  const auto sum = [](std::span<const T> values) {
    T total = 0;
    for (const T value : values) total += value;
    benchmark::DoNotOptimize(total);
  };
  double bare = 1;
  double bare_samples = 1;
  double once_a_batch = 1;
  double once_a_sample = 1;
  const auto measure = [&](double& fastest, const auto& work) {
    const auto start = Clock::now();
    work();
    fastest = std::min(fastest, seconds_since(start));
    benchmark::ClobberMemory();
  };
  for (auto _ : state) {
    measure(bare, [&] { sum(memory); });
    measure(once_a_batch, [&] { sum(tensor.as<T>()); });
    measure(bare_samples, [&] {
      for (std::size_t i = 0; i < kBatch; ++i) sum({memory.data() + i * length, length});
    });
    measure(once_a_sample, [&] {
      for (std::size_t i = 0; i < kBatch; ++i) {
        const std::span<std::byte> bytes = tensor.bytes.subspan(i * length * sizeof(T), length * sizeof(T));
        sum(rota::SampleView{.fields = fields, .bytes = std::span(&bytes, 1)}.as<T>(0));
      }
    });
  }
  state.counters["batch_of_bare"] = once_a_batch / bare;
  state.counters["sample_of_bare"] = once_a_sample / bare_samples;
  state.counters["ns/sample"] = once_a_sample / static_cast<double>(kBatch) * 1e9;
  state.counters["bare_ns/sample"] = bare_samples / static_cast<double>(kBatch) * 1e9;
}
BENCHMARK(sum_through_views<float>)->ArgName("elements")->Arg(16)->Arg(256)->Arg(4096);
BENCHMARK(sum_through_views<std::int32_t>)->ArgName("elements")->Arg(16)->Arg(256)->Arg(4096);

}  // namespace

BENCHMARK_MAIN();
