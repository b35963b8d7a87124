#pragma once

// What benchmarks under mpirun share: times of the slowest rank, raw files to compare with, and a main.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ranks/collectives.hpp"
#include "rota/mpi.hpp"

namespace rota_bench {

/// What the benchmarks of a program share.
struct Setting {
  const rota::Communicator& comm;
  std::filesystem::path directory;
};

/// Registers `run` for each size and number of iterations.
inline void add(const char* name, void (*run)(benchmark::State&, const Setting&), const Setting& setting,
                std::initializer_list<std::pair<std::int64_t, std::int64_t>> sizes) {
  for (const auto& [size, iterations] : sizes) {
    benchmark::RegisterBenchmark(name, [run, &setting](benchmark::State& state) { run(state, setting); })
        ->Arg(size)
        ->Iterations(iterations)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

/// Seconds that `work` takes on the slowest rank.
inline double slowest(const rota::Communicator& comm, const std::function<void()>& work) {
  rota::ranks::agree(comm, "start together", nullptr);
  const auto start = std::chrono::steady_clock::now();
  work();
  std::int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  comm.max(std::span(&nanoseconds, 1));
  return static_cast<double>(nanoseconds) * 1e-9;
}

inline void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

/// One process writes `bytes` to a new file and has them on disk.
inline void write_raw(const std::string& path, std::span<const std::byte> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  require(file >= 0, "create the raw file");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    require(count > 0, "write the raw file");
    done += static_cast<std::size_t>(count);
  }
  require(::fsync(file) == 0 && ::close(file) == 0, "sync the raw file");
}

/// One process reads a file of that size.
inline void read_raw(const std::string& path, std::span<std::byte> bytes) {
  const int file = ::open(path.c_str(), O_RDONLY);
  require(file >= 0, "open the raw file");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    require(count > 0, "read the raw file");
    done += static_cast<std::size_t>(count);
  }
  ::close(file);
}

/// Times of what is measured and of its rival, over the runs of one benchmark.
struct Times {
  double seconds = 0;
  double raw_seconds = 0;
  double drop_seconds = 0;  // of saves: to drop an old file of that size, which a save does, too

  /// `bytes` are those of one run.
  void report(benchmark::State& state, double bytes) const {
    const auto runs = static_cast<double>(state.iterations());
    state.counters["bytes/s"] = bytes * runs / seconds;
    state.counters["raw_bytes/s"] = bytes * runs / raw_seconds;
    state.counters["times_raw"] = seconds / raw_seconds;
    state.counters["ms_above_raw"] = (seconds - raw_seconds) * 1e3 / runs;
    if (drop_seconds > 0) state.counters["times_raw_and_drop"] = seconds / (raw_seconds + drop_seconds);
  }
};

/// Times saves, and beside each one process that writes `bytes` to a new file and has them on disk.
inline void run_saves(benchmark::State& state, const Setting& setting, std::span<const std::byte> bytes,
                      const std::function<void(int step)>& save) {
  const std::string raw = setting.directory / "raw";
  const bool is_root = setting.comm.rank() == 0;
  // A save frees the bytes of the file that it drops in the background, which is not to slow the rival.
  const auto freeing = std::chrono::nanoseconds(bytes.size());
  int step = 0;
  while (step < 3) save(step++);  // from now on each drops one
  Times times;
  for (auto _ : state) {
    times.raw_seconds += slowest(setting.comm, [&] {
      if (is_root) write_raw(raw, bytes);
    });
    times.drop_seconds += slowest(setting.comm, [&] {
      if (is_root) std::filesystem::remove(raw);
    });
    const double one = slowest(setting.comm, [&] { save(step++); });
    std::this_thread::sleep_for(freeing);
    times.seconds += one;
    state.SetIterationTime(one);
  }
  times.report(state, static_cast<double>(bytes.size()));
}

/// Takes --dir=DIR out of the arguments.
inline std::string take_directory(int& argc, char** argv) {
  const std::string_view flag = "--dir=";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread runs
  const char* from_environment = std::getenv("ROTA_BENCH_DIR");
  std::string directory = from_environment != nullptr ? from_environment : ".";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(flag)) {
      directory = argv[i] + flag.size();
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return directory;
}

/// For ranks other than 0.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

/// A program of benchmarks that `add` registers. Its files go to a new directory under --dir=DIR, else
/// $ROTA_BENCH_DIR, else the current one. All ranks must run alike, so numbers of iterations are to be fixed.
inline int run_benchmarks(int argc, char** argv, const std::function<void(const Setting&)>& add) {
  rota::mpi::Session session(argc, argv);
  const std::string parent = take_directory(argc, argv);
  benchmark::Initialize(&argc, argv);
  return session.run([&] {
    const rota::Communicator& comm = session.comm();
    std::string name = parent + "/bench_checkpoint_XXXXXX";
    if (comm.rank() == 0) require(mkdtemp(name.data()) != nullptr, "make a directory for the benchmark");
    const Setting setting{.comm = comm, .directory = rota::ranks::broadcast(comm, name)};
    add(setting);
    Silent silent;
    benchmark::RunSpecifiedBenchmarks(comm.rank() == 0 ? nullptr : &silent);
    rota::ranks::agree(comm, "end", nullptr);
    if (comm.rank() == 0) std::filesystem::remove_all(setting.directory);
    return 0;
  });
}

}  // namespace rota_bench
