// What does it save to read neighbours in one call? Batches of 64 samples of 1 KiB and 10 KiB in several
// orders from one file, read by a loader without workers and, in the same run, by a bare pread for each
// sample. The file is in the page cache, where what counts is the processor's time; or, for `cold`, has been
// dropped from it.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kSamples = 64'000;

/// Files of samples of one size, as lines and as tokens; gone when the program ends.
class Data {
 public:
  Data() {
    std::string pattern = (fs::temp_directory_path() / "rota-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("make " + pattern);
    path_ = pattern;
  }
  ~Data() { fs::remove_all(path_); }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  fs::path file(const std::string& format, std::int64_t bytes) {
    fs::path path = path_ / (format + std::to_string(bytes));
    if (fs::exists(path)) return path;
    std::ofstream out(path, std::ios::binary);
    std::string sample(static_cast<std::size_t>(bytes), 'x');
    if (format == "lines") sample.back() = '\n';
    for (std::int64_t i = 0; i < kSamples; ++i) out << sample;
    return path;
  }

 private:
  fs::path path_;
};

Data& data() {
  static Data only;
  return only;
}

struct Case {
  std::string name;
  std::string format;  // lines or tokens
  std::int64_t bytes;  // of a sample, and the newline of a line
  rota::Shuffle shuffle;
  std::int64_t shards;
  bool is_cold;
};

std::shared_ptr<const rota::Source> open(const Case& at, const fs::path& path) {
  if (at.format == "lines") return rota::open(path, "lines");
  return rota::open(path, rota::TokensOptions{.length = at.bytes / 2});
}

std::int64_t read_calls() {
  std::ifstream file("/proc/thread-self/io");
  std::string word;
  std::int64_t value = 0;
  while (file >> word >> value && word != "syscr:") {
  }
  return value;
}

double seconds_of(clockid_t clock, const std::function<void()>& work) {
  const auto now = [clock] {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

void drop_from_cache(int fd) {
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

void read(benchmark::State& state, const Case& at) {
  const fs::path path = data().file(at.format, at.bytes);
  rota::Loader loader(open(at, path), {.global_batch_size = kBatch,
                                       .shards = at.shards,
                                       .shuffle = at.shuffle,
                                       .seed = 7,
                                       .epochs = rota::kEndless,
                                       .workers = 0});
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> memory(static_cast<std::size_t>(kBatch * at.bytes));
  const clockid_t clock = at.is_cold ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
  std::map<std::string, double> sums;
  std::vector<std::int64_t> ids;
  for (auto _ : state) {
    ids.clear();
    if (at.is_cold) drop_from_cache(fd);
    const std::int64_t before = read_calls();
    const double one = seconds_of(clock, [&] {
      for (std::int64_t k = 0; k < kSamples / kBatch; ++k) {
        const auto batch = loader.next();
        for (const rota::SampleId id : batch->ids()) ids.push_back(id.value);
      }
    });
    sums["calls"] += static_cast<double>(read_calls() - before);
    sums["rota"] += one;
    if (at.is_cold) drop_from_cache(fd);
    sums["bare"] += seconds_of(clock, [&] {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        char* to = memory.data() + i % kBatch * static_cast<std::size_t>(at.bytes);
        if (::pread(fd, to, static_cast<std::size_t>(at.bytes), ids[i] * at.bytes) != at.bytes)
          throw std::runtime_error("read " + path.string());
      }
    });
    state.SetIterationTime(one);
  }
  ::close(fd);
  const auto samples = static_cast<double>(state.iterations() * kSamples);
  state.counters["samples/s"] = samples / sums["rota"];
  state.counters["of_pread"] = sums["bare"] / sums["rota"];
  state.counters["calls/sample"] = sums["calls"] / samples;
}

std::vector<Case> cases() {
  using rota::Shuffle;
  std::vector<Case> all;
  for (const bool is_cold : {false, true}) {
    for (const char* format : {"lines", "tokens"}) {
      for (const std::int64_t bytes : {1024, 10 << 10}) {
        for (const auto& [shuffle, shards] : {std::pair<Shuffle, std::int64_t>{Shuffle::none, 1},
                                              {Shuffle::none, 8},
                                              {Shuffle::none, 256},
                                              {Shuffle::block, 1},
                                              {Shuffle::global, 1}}) {
          const std::string name = std::string(is_cold ? "cold/" : "cached/") + format + "/" +
                                   std::to_string(bytes >> 10) + "KiB/" + std::string(to_string(shuffle)) +
                                   "/" + std::to_string(shards);
          all.push_back({name, format, bytes, shuffle, shards, is_cold});
        }
      }
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Case& at : cases()) {
    benchmark::RegisterBenchmark(at.name.c_str(), [at](benchmark::State& state) { read(state, at); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
