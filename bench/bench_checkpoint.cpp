// What does it cost to save and restore the loader's cursors, int64 [L, 2], beside one process that writes
// and syncs, or reads, the same bytes? Run it alone or under mpirun; times are those of the slowest rank.
// The files go to a new directory under --dir=DIR, else $ROTA_BENCH_DIR, else the current one.

#include <vector>

#include "mpi_bench.hpp"
#include "rota/checkpoint_directory.hpp"

namespace {

using rota_bench::Setting;
using rota_bench::slowest;
using rota_bench::Times;

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

rota::Snapshot snapshot_of(const Cursors& cursors) {
  rota::Snapshot snapshot;
  snapshot.tensor("loader/main/cursors", {2}, cursors.share.count, cursors.own());
  return snapshot;
}

void save(benchmark::State& state, const Setting& setting) {
  const Cursors cursors(state.range(0), setting.comm.world());
  const rota::Snapshot snapshot = snapshot_of(cursors);
  rota::CheckpointDirectory directory(setting.comm, setting.directory / "save");
  rota_bench::run_saves(state, setting, std::as_bytes(std::span(cursors.all)),
                        [&](int step) { directory.save(step, snapshot); });
}

void restore(benchmark::State& state, const Setting& setting) {
  Cursors cursors(state.range(0), setting.comm.world());
  rota::CheckpointDirectory directory(setting.comm, setting.directory / "restore");
  directory.save(0, snapshot_of(cursors));
  const std::string raw = setting.directory / "raw";
  const bool is_root = setting.comm.rank() == 0;
  if (is_root) rota_bench::write_raw(raw, std::as_bytes(std::span(cursors.all)));
  Times times;
  for (auto _ : state) {
    const double one = slowest(setting.comm, [&] {
      const auto checkpoint = directory.latest();
      benchmark::DoNotOptimize(checkpoint->read<std::int64_t>("loader/main/cursors", cursors.share));
    });
    times.raw_seconds += slowest(setting.comm, [&] {
      if (is_root) rota_bench::read_raw(raw, std::as_writable_bytes(std::span(cursors.all)));
    });
    times.seconds += one;
    state.SetIterationTime(one);
  }
  times.report(state, cursors.bytes);
}

}  // namespace

int main(int argc, char** argv) {
  return rota_bench::run_benchmarks(argc, argv, [](const Setting& setting) {
    const auto add = [&](const char* name, void (*run)(benchmark::State&, const Setting&)) {
      rota_bench::add(name, run, setting, {{1'024, 100}, {16'384, 100}, {1'000'000, 20}});
    };
    add("save", save);
    add("restore", restore);
  });
}
