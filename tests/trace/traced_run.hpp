#pragma once

// Runs of real loaders, all ranks of a world in this process, traced.

#include "source/reading.hpp"
#include "source/told_source.hpp"

namespace rota::test {

inline constexpr Tail kTails[] = {Tail::partial, Tail::carry, Tail::drop, Tail::pad};
inline constexpr Split kSplits[] = {Split::by_sample, Split::by_shard, Split::interleaved};

/// A loader of any kind for a world.
using MakeLoader = std::function<Loader(World)>;

inline MakeLoader one_dataset(std::int64_t samples, const LoaderOptions& options) {
  const auto source = faulty(samples, true);
  return [=](World world) { return Loader(source, options, world); };
}

/// Of 40 and 24 samples, 2 : 1.
inline MakeLoader two_datasets(const LoaderOptions& options, MixtureEnd end = MixtureEnd::first_exhausted) {
  const auto first = faulty(40, true);
  const auto second = faulty(24, true);
  return [=](World world) {
    return Loader({.datasets = {{first, 2}, {second, 1}}, .end = end}, options, world);
  };
}

/// Runs a phase of `size` ranks, of `steps` steps at most, from `start` on; where it ends.
inline Position run_phase(const fs::path& dir, const MakeLoader& make, std::int64_t phase, int size,
                          const Position& start, int steps = 1 << 20) {
  Position end;
  for (int rank = 0; rank < size; ++rank) {
    Loader loader = make({.rank = rank, .size = size});
    loader.seek(start);
    TraceWriter trace(dir, loader, phase);
    for (int step = 0; step < steps; ++step) {
      const auto batch = loader.next();
      if (!batch) break;
      trace.write(*batch);
    }
    trace.end(loader);
    end = loader.position();
  }
  return end;
}

/// Four ranks, then back by two steps and on with three, then one to the end.
inline void run_in_three_worlds(const fs::path& dir, const MakeLoader& make) {
  const Position saved = run_phase(dir, make, 0, 4, {}, 3);
  run_phase(dir, make, 1, 4, saved, 2);
  const Position stopped = run_phase(dir, make, 2, 3, saved, 5);
  run_phase(dir, make, 3, 1, stopped);
}

/// What `work` throws while no file of this process may grow beyond so many bytes.
inline std::optional<Error> error_on_full_disk(rlim_t bytes, const std::function<void()>& work) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{.rlim_cur = bytes, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  auto error = error_of(work);
  static_cast<void>(std::signal(SIGXFSZ, handler));
  ::setrlimit(RLIMIT_FSIZE, &before);
  return error;
}

inline std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline void write_lines(const fs::path& file, const std::vector<std::string>& lines) {
  fs::remove(file);  // quicker than to cut it
  std::ofstream stream(file);
  for (const std::string& line : lines) stream << line << '\n';
}

}  // namespace rota::test
