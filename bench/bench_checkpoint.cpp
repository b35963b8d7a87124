// What does it cost to save and restore the loader's cursors, int64 [L, 2], beside one process that writes
// and syncs, or reads, the same bytes? Run it alone or under mpirun; times are those of the slowest rank.
// The files go to a new directory under --dir=DIR, else $ROTA_BENCH_DIR, else the current one.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rota/checkpoint.hpp"
#include "rota/mpi.hpp"

namespace {

using Seconds = std::chrono::duration<double>;

// What the benchmarks share; set once in main.
struct Setting {
  const rota::mpi::Communicator& comm;
  std::filesystem::path directory;
};

// Seconds that `work` takes on the slowest rank.
double slowest(const rota::mpi::Communicator& comm, const std::function<void()>& work) {
  rota::mpi::agree(comm, "start together", nullptr);
  const auto start = std::chrono::steady_clock::now();
  work();
  std::int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  rota::mpi::max(comm, std::span(&nanoseconds, 1));
  return static_cast<double>(nanoseconds) * 1e-9;
}

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void write_raw(const std::string& path, const std::vector<std::int64_t>& values) {
  const std::size_t bytes = values.size() * sizeof(std::int64_t);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  require(file >= 0, "create the raw file");
  require(::write(file, values.data(), bytes) == static_cast<ssize_t>(bytes), "write the raw file");
  require(::fsync(file) == 0 && ::close(file) == 0, "sync the raw file");
}

void read_raw(const std::string& path, std::vector<std::int64_t>& values) {
  const std::size_t bytes = values.size() * sizeof(std::int64_t);
  const int file = ::open(path.c_str(), O_RDONLY);
  require(file >= 0, "open the raw file");
  require(::read(file, values.data(), bytes) == static_cast<ssize_t>(bytes), "read the raw file");
  ::close(file);
}

// Cursors of `shards` shards, and this rank's share of them.
struct Cursors {
  Cursors(std::int64_t shards, const rota::World& world)
      : all(static_cast<std::size_t>(2 * shards)),
        share{shards * world.rank / world.size, 0},
        bytes(static_cast<double>(shards) * 2 * sizeof(std::int64_t)) {
    share.count = shards * (world.rank + 1) / world.size - share.first;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i * 7);
  }
  [[nodiscard]] std::span<const std::int64_t> own() const {
    return std::span(all).subspan(static_cast<std::size_t>(2 * share.first),
                                  static_cast<std::size_t>(2 * share.count));
  }

  std::vector<std::int64_t> all;
  rota::RowRange share;
  double bytes;
};

void report(benchmark::State& state, double bytes, double seconds, double raw_seconds) {
  const auto runs = static_cast<double>(state.iterations());
  state.counters["bytes/s"] = bytes * runs / seconds;
  state.counters["raw_bytes/s"] = bytes * runs / raw_seconds;
  state.counters["times_raw"] = seconds / raw_seconds;
}

rota::Snapshot snapshot_of(const Cursors& cursors) {
  rota::Snapshot snapshot;
  snapshot.tensor("loader/main/cursors", {2}, cursors.share.count, cursors.own());
  return snapshot;
}

void save(benchmark::State& state, const Setting& setting) {
  const Cursors cursors(state.range(0), setting.comm.world());
  const rota::Snapshot snapshot = snapshot_of(cursors);
  rota::CheckpointDirectory directory(setting.comm, setting.directory / "save");
  const std::string raw = setting.directory / "raw";
  directory.save(0, snapshot);
  double seconds = 0;
  double raw_seconds = 0;
  for (auto _ : state) {
    const double one = slowest(setting.comm, [&] { directory.save(1, snapshot); });
    raw_seconds += slowest(setting.comm, [&] {
      if (setting.comm.rank() == 0) write_raw(raw, cursors.all);
    });
    if (setting.comm.rank() == 0) std::filesystem::remove(raw);
    seconds += one;
    state.SetIterationTime(one);
  }
  report(state, cursors.bytes, seconds, raw_seconds);
}

void restore(benchmark::State& state, const Setting& setting) {
  Cursors cursors(state.range(0), setting.comm.world());
  rota::CheckpointDirectory directory(setting.comm, setting.directory / "restore");
  directory.save(0, snapshot_of(cursors));
  const std::string raw = setting.directory / "raw";
  if (setting.comm.rank() == 0) write_raw(raw, cursors.all);
  double seconds = 0;
  double raw_seconds = 0;
  for (auto _ : state) {
    const double one = slowest(setting.comm, [&] {
      const auto checkpoint = directory.latest();
      benchmark::DoNotOptimize(checkpoint->read<std::int64_t>("loader/main/cursors", cursors.share));
    });
    raw_seconds += slowest(setting.comm, [&] {
      if (setting.comm.rank() == 0) read_raw(raw, cursors.all);
    });
    seconds += one;
    state.SetIterationTime(one);
  }
  report(state, cursors.bytes, seconds, raw_seconds);
}

// All ranks must run alike, so the number of iterations is fixed.
void add(const char* name, void (*run)(benchmark::State&, const Setting&), const Setting& setting) {
  for (const auto& [shards, iterations] : {std::pair{1'024, 100}, {16'384, 100}, {1'000'000, 20}}) {
    benchmark::RegisterBenchmark(name, [run, &setting](benchmark::State& state) { run(state, setting); })
        ->Arg(shards)
        ->Iterations(iterations)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

// Takes --dir=DIR out of the arguments.
std::string take_directory(int& argc, char** argv) {
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

// For ranks other than 0.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

int run(const rota::mpi::Communicator& comm, const std::string& parent) {
  std::string name = parent + "/bench_checkpoint_XXXXXX";
  if (comm.rank() == 0) require(mkdtemp(name.data()) != nullptr, "make a directory for the benchmark");
  const Setting setting{.comm = comm, .directory = rota::mpi::broadcast(comm, name)};
  add("save", save, setting);
  add("restore", restore, setting);
  Silent silent;
  if (comm.rank() == 0) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    benchmark::RunSpecifiedBenchmarks(&silent);
  }
  rota::mpi::agree(comm, "end", nullptr);
  if (comm.rank() == 0) std::filesystem::remove_all(setting.directory);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  const std::string parent = take_directory(argc, argv);
  benchmark::Initialize(&argc, argv);
  return session.run([&] { return run(session.comm(), parent); });
}
