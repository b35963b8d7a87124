// What do windows cost? Rows in the page cache, read as windows by a loader without workers, in order and at
// random; in the same run as samples of the same size (the naive way, which keeps the overlap on disk), and
// by a bare pread and a memcpy of each window.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"
#include "rota/windows.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kFileBytes = std::int64_t{128} << 20;
constexpr std::int64_t kLength = 24;
constexpr std::int64_t kStride = 6;
constexpr std::int64_t kChunkRows = 24;

/// How rows lie in a file.
enum Storage : std::int64_t { kContiguous, kDeflated };

/// A file of rows of floats, and one of the windows over them; gone when the program ends.
class Data {
 public:
  Data(std::int64_t row_bytes, Storage storage) : row_bytes_(row_bytes) {
    std::string pattern = (fs::temp_directory_path() / "rota-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("make " + pattern);
    directory_ = pattern;
    const std::int64_t bytes = storage == kDeflated ? kFileBytes / 8 : kFileBytes;
    // Values that deflate to about half.
    std::vector<float> values(static_cast<std::size_t>(bytes) / 4);
    std::mt19937 random(1);
    for (float& value : values) value = static_cast<float>(random() % 4096);
    offset_ = write("rows.h5", values, row_bytes_, kChunkRows, storage);
    // Every fourth window: that many are enough to read at random.
    const auto window = static_cast<std::size_t>(kLength * row_bytes_) / 4;
    values.resize(values.size() / window * window);
    write("windows.h5", values, row_bytes_ * kLength, 1, storage);
  }
  ~Data() { fs::remove_all(directory_); }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  [[nodiscard]] fs::path path(const char* name) const { return directory_ / name; }
  [[nodiscard]] std::int64_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] std::int64_t offset() const { return offset_; }

 private:
  // Where the values lie, if they are contiguous.
  std::int64_t write(const char* name, const std::vector<float>& values, std::int64_t row_bytes,
                     std::int64_t chunk_rows, Storage storage) const {
    const hid_t file = H5Fcreate(path(name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const auto columns = static_cast<hsize_t>(row_bytes / 4);
    const hsize_t extents[] = {values.size() / columns, columns};
    const hid_t space = H5Screate_simple(2, extents, nullptr);
    const hid_t options = H5Pcreate(H5P_DATASET_CREATE);
    if (storage == kDeflated) {
      const hsize_t chunk[] = {static_cast<hsize_t>(chunk_rows), columns};
      H5Pset_chunk(options, 2, chunk);
      H5Pset_deflate(options, 1);
    }
    const hid_t data = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, options, H5P_DEFAULT);
    if (H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
      throw std::runtime_error("write " + path(name).string());
    }
    const auto offset = static_cast<std::int64_t>(H5Dget_offset(data));
    H5Dclose(data);
    H5Pclose(options);
    H5Sclose(space);
    H5Fclose(file);
    return offset;
  }

  fs::path directory_;
  std::int64_t row_bytes_;
  std::int64_t offset_ = 0;
};

const Data& data_of(std::int64_t row_bytes, Storage storage) {
  static std::map<std::pair<std::int64_t, Storage>, Data> all;
  return all.try_emplace({row_bytes, storage}, row_bytes, storage).first->second;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

rota::Loader loader_of(std::shared_ptr<const rota::Source> source, rota::Shuffle shuffle,
                       std::int64_t batch) {
  // One shard, so that windows follow one another where nothing is shuffled.
  return {std::move(source),
          {.global_batch_size = batch,
           .shards = 1,
           .shuffle = shuffle,
           .tail = rota::Tail::carry,
           .epochs = rota::kEndless,
           .workers = 0}};
}

/// The bytes of windows, by a bare pread or memcpy of each.
class Limit {
 public:
  Limit(const Data& data, std::int64_t batch)
      : data_(data),
        descriptor_(::open(data.path("rows.h5").c_str(), O_RDONLY | O_CLOEXEC)),
        bytes_(static_cast<std::size_t>(kLength * data.row_bytes())),
        memory_(static_cast<std::size_t>(batch) * bytes_),
        from_(static_cast<std::size_t>(kFileBytes), 1) {}
  ~Limit() { ::close(descriptor_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

  void read(const std::vector<std::int64_t>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const off_t at = data_.offset() + ids[i] * kStride * data_.row_bytes();
      if (::pread(descriptor_, to(i), bytes_, at) != static_cast<ssize_t>(bytes_))
        throw std::runtime_error("read rows");
    }
  }
  void copy(const std::vector<std::int64_t>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(to(i), from_.data() + ids[i] * kStride * data_.row_bytes(), bytes_);
      benchmark::ClobberMemory();
    }
  }

 private:
  char* to(std::size_t i) { return memory_.data() + i * bytes_ % memory_.size(); }

  const Data& data_;
  int descriptor_;
  std::size_t bytes_;
  std::vector<char> memory_;
  std::vector<char> from_;
};

/// Takes `count` batches, and notes the windows in them.
void take(rota::Loader& loader, std::int64_t count, std::vector<std::int64_t>& ids) {
  ids.clear();
  for (std::int64_t k = 0; k < count; ++k) {
    const auto batch = loader.next();
    for (const rota::SampleId id : batch->ids()) ids.push_back(id.value);
  }
}

void read(benchmark::State& state) {
  const auto storage = static_cast<Storage>(state.range(1));
  const Data& data = data_of(state.range(0), storage);
  const auto shuffle = state.range(2) == 0 ? rota::Shuffle::none : rota::Shuffle::global;
  const std::int64_t window_bytes = kLength * data.row_bytes();
  const std::int64_t batch = std::max<std::int64_t>(8, (std::int64_t{1} << 20) / window_bytes);
  const std::int64_t batches = (storage == kDeflated ? 8 << 20 : 128 << 20) / (batch * window_bytes) + 1;
  const std::shared_ptr<const rota::Source> rows = rota::open(data.path("rows.h5"), "hdf5");
  rota::Loader windows =
      loader_of(rota::windows(rows, {.length = kLength, .stride = kStride}), shuffle, batch);
  rota::Loader plain = loader_of(rota::open(data.path("windows.h5"), "hdf5"), shuffle, batch);
  Limit limit(data, batch);
  std::map<std::string, double> seconds;
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> unused;
  take(windows, batches, ids);
  for (auto _ : state) {
    const double one = seconds_of([&] { take(windows, batches, ids); });
    state.SetIterationTime(one);
    seconds["windows"] += one;
    seconds["plain"] += seconds_of([&] { take(plain, batches, unused); });
    if (storage == kContiguous) seconds["pread"] += seconds_of([&] { limit.read(ids); });
    if (storage == kContiguous) seconds["memcpy"] += seconds_of([&] { limit.copy(ids); });
  }
  state.SetBytesProcessed(state.iterations() * batches * batch * window_bytes);
  for (const auto& [name, value] : seconds) {
    if (name != "windows") state.counters["of_" + name] = value / seconds["windows"];
  }
}
BENCHMARK(read)
    ->ArgNames({"row_bytes", "deflated", "shuffled"})
    ->ArgsProduct({{4, 64, 1 << 10, 16 << 10, 256 << 10}, {kContiguous}, {0, 1}})
    ->ArgsProduct({{1 << 10, 16 << 10}, {kDeflated}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
