#pragma once

// Runs of real loaders, all ranks of a world in this process, traced.

#include "source/told_source.hpp"

namespace rota::test {

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

}  // namespace rota::test
