#pragma once

// The loaders of the golden checkpoint, as those who wrote it made them and those who go on with it do.

#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test {

inline constexpr std::int64_t kGoldenSamples = 100;
inline constexpr std::int64_t kGoldenBad = 17;  // one in this many samples is
inline constexpr std::int64_t kGoldenItems = 30;
inline constexpr std::int64_t kGoldenShards = 5;  // of the dispatch

/// Skips samples.
inline Loader golden_loader(World world = {}) {
  auto source = faulty(kGoldenSamples, true);
  for (std::int64_t id = 0; id < kGoldenSamples; id += kGoldenBad) source->corrupt.insert(id);
  return {source, {.global_batch_size = 8, .shards = 9, .seed = 3, .bad_samples = kSkip}, world};
}

/// Of two datasets.
inline Loader golden_mixture(World world = {}) {
  return {{.datasets = {{counting(kGoldenSamples), 0.7}, {counting(kGoldenSamples), 0.3}}},
          {.global_batch_size = 8, .shards = 5},
          world};
}

/// Seven shards, mixed by a buffer that is in its cursors.
inline StreamLoader golden_stream(const Communicator& comm = {}) {
  const auto source = std::make_shared<NumberedStream>(Numbers{20, 21, 0, 3, 40, 9, 33});
  return StreamLoader(comm, shuffle_buffer(source, 5, /*seed=*/7), {.global_batch_size = 6});
}

inline StreamLoader golden_dispatch(const Communicator& comm = {}) {
  const auto source = std::make_shared<NumberedStream>(Numbers{kGoldenItems});
  return StreamLoader(comm, Dispatch{.source = source, .shards = kGoldenShards},
                      {.global_batch_size = 7, .epochs = 2});
}

}  // namespace rota::test
