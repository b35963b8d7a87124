// How fast are a model's tensors saved, copied for a save in the background, and verified? Beside each the
// floor: one process that writes the same bytes and has them on disk, a memcpy into memory that is there
// already, and one process that reads the same bytes from the cache. Run it alone or under mpirun; times are
// those of the slowest rank.

#include <cstring>
#include <vector>

#include "mpi_bench.hpp"
#include "rota/checkpoint_directory.hpp"

namespace {

using rota_bench::Setting;
using rota_bench::slowest;
using rota_bench::Times;

constexpr std::int64_t kRowBytes = 4 * sizeof(std::int64_t);

// One tensor int64 [rows, 4], all of it on each rank, of which it saves its share.
struct Model {
  Model(std::int64_t bytes, const rota::World& world)
      : all(static_cast<std::size_t>(bytes) / sizeof(std::int64_t)) {
    const std::int64_t rows = bytes / kRowBytes;
    share.first = rows * world.rank / world.size;
    share.count = rows * (world.rank + 1) / world.size - share.first;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i * 0x9E3779B97F4A7C15U);
  }
  [[nodiscard]] std::span<const std::int64_t> own() const {
    return std::span(all).subspan(static_cast<std::size_t>(4 * share.first),
                                  static_cast<std::size_t>(4 * share.count));
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(all)); }
  [[nodiscard]] rota::Snapshot snapshot() const {
    rota::Snapshot snapshot;
    snapshot.tensor("model/weights", {4}, share.count, own());
    return snapshot;
  }

  std::vector<std::int64_t> all;
  rota::RowRange share;
};

void save(benchmark::State& state, const Setting& setting) {
  const Model model(state.range(0), setting.comm.world());
  const rota::Snapshot snapshot = model.snapshot();
  rota::CheckpointDirectory directory(setting.comm, setting.directory / "save");
  rota_bench::run_saves(state, setting, model.bytes(), [&](int step) { directory.save(step, snapshot); });
}

// What the loop waits for.
void stall(benchmark::State& state, const Setting& setting) {
  const Model model(state.range(0), setting.comm.world());
  const auto own = std::as_bytes(model.own());
  std::vector<std::byte> copy(own.size());
  rota::CheckpointDirectory directory(setting.comm, setting.directory / "stall");
  directory.save_async(0, model.snapshot());  // from now on it has memory for the copy
  Times times;
  for (auto _ : state) {
    directory.wait();
    times.raw_seconds += slowest(setting.comm, [&] {
      if (!own.empty()) std::memcpy(copy.data(), own.data(), own.size());
      benchmark::DoNotOptimize(copy.data());
      benchmark::ClobberMemory();
    });
    const double one = slowest(setting.comm, [&] { directory.save_async(1, model.snapshot()); });
    times.seconds += one;
    state.SetIterationTime(one);
  }
  directory.wait();
  times.report(state, static_cast<double>(model.bytes().size()));
}

// By all ranks together; the rival reads the whole file without a look at it.
void verify(benchmark::State& state, const Setting& setting) {
  const Model model(state.range(0), setting.comm.world());
  rota::CheckpointDirectory directory(setting.comm, setting.directory / "verify");
  const rota::CheckpointInfo info = directory.save(0, model.snapshot()).info;
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes));
  Times times;
  for (auto _ : state) {
    times.raw_seconds += slowest(setting.comm, [&] {
      if (setting.comm.rank() == 0) rota_bench::read_raw(info.path, bytes);
    });
    const double one = slowest(setting.comm, [&] { benchmark::DoNotOptimize(directory.latest()); });
    times.seconds += one;
    state.SetIterationTime(one);
  }
  times.report(state, static_cast<double>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  return rota_bench::run_benchmarks(argc, argv, [](const Setting& setting) {
    const auto add = [&](const char* name, void (*run)(benchmark::State&, const Setting&)) {
      rota_bench::add(name, run, setting, {{63 << 10, 200}, {32 << 20, 40}, {256 << 20, 8}});
    };
    add("save", save);
    add("stall", stall);
    add("verify", verify);
  });
}
