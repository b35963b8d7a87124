// What do compressed chunks of many rows cost? Rows of 64 KiB, in chunks of 1 to 720 rows, are read by a
// loader in three orders; in the same run each chunk is decoded once by as many bare threads, which then copy
// each row once: from the chunk, or, for the global order, at random from memory that holds all. "of_bare" is
// the share of that speed, "decodes" how often a chunk was decoded, "memory" the most that the process
// took while it read, of decoded_bytes, what its workers decode with, and the batches.

#include <benchmark/benchmark.h>
#include <hdf5.h>
#include <liblzf/lzf.h>
#include <lz4.h>
#include <malloc.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "formats/hdf5/filters.hpp"
#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kRowBytes = 64 << 10;
constexpr std::int64_t kRows = 4320;
constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kAllBytes = std::int64_t{320} << 20;

enum Codec : std::int64_t { kDeflate = 1, kLzf = 32000, kLz4 = 32004, kZstd = 32015 };
enum Order : std::int64_t { kGlobal, kWithin, kBlock };

Bytes compress(Codec codec, const Bytes& raw) {
  Bytes out(raw.size() + raw.size() / 8 + 4096);
  std::size_t bytes = 0;
  if (codec == kDeflate) {
    uLongf size = out.size();
    if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
                  raw.size(), 4) == Z_OK)
      bytes = size;
  } else if (codec == kZstd) {
    bytes = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 3);
  } else if (codec == kLzf) {
    bytes = lzf_compress(raw.data(), static_cast<unsigned>(raw.size()), out.data(),
                         static_cast<unsigned>(out.size()));
  } else {
    constexpr std::size_t kHead = 16;
    const auto put = [&](std::size_t at, std::uint64_t value, std::size_t width) {
      for (std::size_t i = 0; i < width; ++i)
        out[at + i] = static_cast<std::byte>(value >> 8 * (width - 1 - i));
    };
    bytes = static_cast<std::size_t>(LZ4_compress_default(
        reinterpret_cast<const char*>(raw.data()), reinterpret_cast<char*>(out.data() + kHead),
        static_cast<int>(raw.size()), static_cast<int>(out.size() - kHead)));
    put(0, raw.size(), 8);
    put(8, raw.size(), 4);
    put(12, bytes, 4);
    bytes += kHead;
  }
  if (bytes == 0 || bytes > out.size()) throw std::runtime_error("compress a chunk");
  out.resize(bytes);
  return out;
}

void in_threads(int threads, const std::function<void(std::atomic<std::size_t>& next)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> all;
  for (int t = 1; t < threads; ++t) all.emplace_back([&] { work(next); });
  work(next);
}

void copy_row(Bytes& batch, std::size_t row, const std::byte* from) {
  std::memcpy(&batch[row % kBatch * kRowBytes], from, kRowBytes);
  benchmark::ClobberMemory();
}

/// A file of chunks, gone when the program ends; and its chunks as they are stored.
class Data {
 public:
  Data(std::int64_t rows, Codec codec) : rows_(rows) {
    std::string pattern = (fs::temp_directory_path() / "rota-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("make " + pattern);
    directory_ = pattern;
    dataset_.filters = {H5Z_FILTER_SHUFFLE, static_cast<int>(codec)};
    dataset_.type.bytes = sizeof(float);
    const hid_t file = H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extents[] = {kRows, kRowBytes / sizeof(float)};
    const hsize_t chunk[] = {static_cast<hsize_t>(rows), extents[1]};
    const hid_t space = H5Screate_simple(2, extents, nullptr);
    const hid_t options = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(options, 2, chunk);
    H5Pset_shuffle(options);
    H5Pset_filter(options, static_cast<H5Z_filter_t>(codec), H5Z_FLAG_OPTIONAL, 0, nullptr);
    const hid_t data = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, options, H5P_DEFAULT);
    std::mt19937 random(1);
    for (std::int64_t row = 0; row < kRows; row += rows) {
      chunks_.push_back(compress(codec, shuffled(random)));
      const hsize_t origin[] = {static_cast<hsize_t>(row), 0};
      if (H5Dwrite_chunk(data, H5P_DEFAULT, 0, origin, chunks_.back().size(), chunks_.back().data()) < 0)
        throw std::runtime_error("write " + path().string());
    }
    H5Dclose(data);
    H5Pclose(options);
    H5Sclose(space);
    H5Fclose(file);
  }
  ~Data() { fs::remove_all(directory_); }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  [[nodiscard]] fs::path path() const { return directory_ / "x.h5"; }

  /// Decodes each chunk once, and copies each row to where a batch would have it: at once, or from memory
  /// that `keeps_all`, in random order.
  void decode(int threads, bool keeps_all) const {
    const std::size_t chunk_bytes = static_cast<std::size_t>(rows_) * kRowBytes;
    const auto kept =
        std::make_unique_for_overwrite<std::byte[]>(keeps_all ? chunks_.size() * chunk_bytes : 1);
    in_threads(threads, [&](std::atomic<std::size_t>& next) {
      rota::internal::Unfilter unfilter;
      Bytes own(keeps_all ? 0 : chunk_bytes);
      Bytes batch(kBatch * kRowBytes);
      for (std::size_t i = next++; i < chunks_.size(); i = next++) {
        const std::span to =
            keeps_all ? std::span(kept.get() + i * chunk_bytes, chunk_bytes) : std::span(own);
        if (!unfilter.run(dataset_, 0, chunks_[i], to)) throw std::runtime_error("decode a chunk");
        for (std::size_t row = 0; !keeps_all && row < static_cast<std::size_t>(rows_); ++row)
          copy_row(batch, row, &to[row * kRowBytes]);
      }
    });
    if (!keeps_all) return;
    std::vector<std::size_t> order(static_cast<std::size_t>(kRows));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    in_threads(threads, [&](std::atomic<std::size_t>& next) {
      Bytes batch(kBatch * kRowBytes);
      for (std::size_t i = next++; i < order.size(); i = next++)
        copy_row(batch, i, kept.get() + order[i] * kRowBytes);
    });
  }

 private:
  // Steps of a random walk, as measurements of neighbours are.
  [[nodiscard]] Bytes shuffled(std::mt19937& random) const {
    const std::size_t count = static_cast<std::size_t>(rows_) * kRowBytes / sizeof(float);
    Bytes raw(count * sizeof(float));
    float value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value += static_cast<float>(random() % 7) - 3;
      std::byte bytes[sizeof(float)];
      std::memcpy(bytes, &value, sizeof(float));
      for (std::size_t b = 0; b < sizeof(float); ++b) raw[b * count + i] = bytes[b];
    }
    return raw;
  }

  std::int64_t rows_;
  fs::path directory_;
  rota::internal::Hdf5Dataset dataset_;
  std::vector<Bytes> chunks_;
};

const Data& data_of(std::int64_t rows, Codec codec) {
  static std::map<std::pair<std::int64_t, Codec>, Data> all;
  return all.try_emplace({rows, codec}, rows, codec).first->second;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

rota::LoaderOptions options_of(Order order, std::int64_t workers) {
  rota::LoaderOptions options{.global_batch_size = kBatch, .workers = static_cast<int>(workers)};
  options.read_ahead_batches = 8;
  if (order == kWithin) options.shards = rota::kUnitShards;
  if (order == kWithin) options.interleave = 2;
  if (order == kWithin) options.shuffle = rota::Shuffle::within;
  if (order == kBlock) options.shards = 1;
  if (order == kBlock) options.shuffle = rota::Shuffle::block;
  options.block = {.samples = 0, .blocks = 2};
  return options;
}

// Since it was last set back.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") return status >> word ? std::stod(word) / 1024 : 0;
  }
  return 0;
}

void read(benchmark::State& state) {
  const Data& data = data_of(state.range(0), static_cast<Codec>(state.range(1)));
  const auto order = static_cast<Order>(state.range(2));
  const rota::LoaderOptions options = options_of(order, state.range(3));
  const int threads = std::max(options.workers, 1);
  // Two chunks at a time, and one that is being decoded.
  const std::int64_t chunk_bytes = state.range(0) * static_cast<std::int64_t>(kRowBytes);
  const std::int64_t needed = order == kGlobal ? kAllBytes : 4 * chunk_bytes + (1 << 20);
  // A worker has a chunk as it is stored, and twice as it is decoded; and there are batches.
  const std::int64_t batches =
      (options.read_ahead_batches + 2) * kBatch * static_cast<std::int64_t>(kRowBytes);
  const double most_mib =
      static_cast<double>(needed + std::int64_t{3} * threads * chunk_bytes + batches) / (1 << 20);
  double memory = 0;
  double loader_seconds = 0;
  double bare_seconds = 0;
  rota::LoaderStats stats;
  for (auto _ : state) {
    bare_seconds += seconds_of([&] { data.decode(threads, order == kGlobal); });
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5;
    const double before = peak_mib();
    const rota::Catalog catalog(data.path(), {.decoded_bytes = needed});
    const auto source = rota::open(catalog, "hdf5");
    const double seconds = seconds_of([&] {
      rota::Loader loader(source, options);
      while (const auto batch = loader.next()) benchmark::DoNotOptimize(batch->tensor(0).bytes.data());
      stats = loader.stats();
    });
    state.SetIterationTime(seconds);
    loader_seconds += seconds;
    memory = std::max(memory, (peak_mib() - before) / most_mib);
  }
  state.SetItemsProcessed(state.iterations() * kRows);
  state.counters["of_bare"] = bare_seconds / loader_seconds;
  state.counters["decodes"] = static_cast<double>(stats.decodes) / static_cast<double>(stats.chunks);
  state.counters["memory"] = memory;
}
BENCHMARK(read)
    ->ArgNames({"rows", "filter", "order", "workers"})
    ->ArgsProduct(
        {{1, 8, 24, 120, 720}, {kDeflate, kLzf, kLz4, kZstd}, {kGlobal, kWithin, kBlock}, {0, 1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
