// How do a million paths get from rank 0 to all ranks? As rota hands them out, packed while they are found,
// in one copy a node, and, in the same run, as strings in a plain broadcast of which each rank keeps every
// P-th. With nodes = 0, ranks are where they are; with nodes = 1 as if each were a node of its own, so that
// all bytes are sent. Run it under mpirun; times are those of the slowest rank.

#include <fmt/format.h>

#include <numeric>
#include <string>
#include <vector>

#include "catalog/name_table.hpp"
#include "mpi_bench.hpp"
#include "ranks/collectives.hpp"
#include "ranks/node_buffer.hpp"

namespace {

using rota_bench::Setting;
using rota_bench::slowest;

constexpr std::int64_t kPaths = 1'000'000;

std::vector<std::string> numbered_paths() {
  std::vector<std::string> paths;
  paths.reserve(kPaths);
  for (std::int64_t i = 0; i < kPaths; ++i) {
    paths.push_back(fmt::format("train/{:04}/img_{:08}_of_{:08}.npz", i / 10'000, i, kPaths));
  }
  return paths;
}

// Every P-th path, of those that rank 0 has.
std::vector<std::string> broadcast_plainly(const rota::Communicator& comm,
                                           const std::vector<std::string>& paths) {
  std::vector<std::int32_t> lengths(kPaths);
  std::string text;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    lengths[i] = static_cast<std::int32_t>(paths[i].size());
    text += paths[i];
  }
  lengths = rota::ranks::broadcast(comm, std::move(lengths));
  text = rota::ranks::broadcast(comm, std::move(text));
  std::vector<std::string> kept;
  std::size_t at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto length = static_cast<std::size_t>(lengths[i]);
    if (i % static_cast<std::size_t>(comm.size()) == static_cast<std::size_t>(comm.rank())) {
      kept.push_back(text.substr(at, length));
    }
    at += length;
  }
  return kept;
}

struct Rivals {
  double packed_seconds = 0;  // packing included
  double ready_seconds = 0;   // of a table that is there
  double plain_seconds = 0;

  void report(benchmark::State& state, std::size_t bytes) const {
    state.counters["bytes_a_path"] = static_cast<double>(bytes) / kPaths;
    state.counters["plain_times_rota"] = plain_seconds / packed_seconds;
    state.counters["plain_times_ready"] = plain_seconds / ready_seconds;
    state.counters["plain_ms"] = plain_seconds * 1e3 / static_cast<double>(state.iterations());
    state.counters["ready_ms"] = ready_seconds * 1e3 / static_cast<double>(state.iterations());
  }
};

void paths(benchmark::State& state, const Setting& setting) {
  const rota::ranks::Nodes nodes(setting.comm.duplicate(), static_cast<int>(state.range(0)));
  const std::vector<std::string> all =
      setting.comm.rank() == 0 ? numbered_paths() : std::vector<std::string>();
  Rivals rivals;
  std::size_t bytes = 0;
  for (auto _ : state) {
    rivals.plain_seconds +=
        slowest(setting.comm, [&] { benchmark::DoNotOptimize(broadcast_plainly(setting.comm, all)); });
    rota::internal::NodeBuffer table;
    const double one = slowest(setting.comm, [&] {
      table = rota::internal::broadcast_to_nodes(nodes, "hand out paths",
                                                 [&](const rota::internal::ByteSink& sink) {
                                                   rota::internal::NameTableBuilder names(sink);
                                                   for (const std::string& path : all) names.add("", path);
                                                   sink(names.end());
                                                 });
    });
    rivals.packed_seconds += one;
    rivals.ready_seconds += slowest(setting.comm, [&] {
      benchmark::DoNotOptimize(rota::internal::broadcast_to_nodes(
          nodes, "hand out paths", [&](const rota::internal::ByteSink& sink) { sink(table.bytes); }));
    });
    bytes = table.bytes.size();
    state.SetIterationTime(one);
  }
  rivals.report(state, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  return rota_bench::run_benchmarks(argc, argv, [](const Setting& setting) {
    rota_bench::add("paths/ranks_per_node", paths, setting, {{0, 10}, {1, 10}});
  });
}
