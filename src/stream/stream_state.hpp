#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rota/stream_loader.hpp"
#include "stream/shard_reader.hpp"

namespace rota::internal {

/// What a run over streams goes on from, as far as one rank knows it.
struct StreamRun {
  StreamPosition position;
  std::int64_t epoch_began = 0;    // at this step
  std::vector<int> owners;         // of all shards, in this epoch
  std::vector<ShardPlace> places;  // of those that are this rank's; they take turns in this order
  std::size_t first = 0;           // the next one's
};

/// How the loader's state is saved and restored.
class StreamState {
 public:
  [[nodiscard]] static const StreamRun& run(const StreamLoader& loader) noexcept;
  /// Goes on from `run`. All ranks do so at the same step. What was read ahead is dropped.
  static void go_on(StreamLoader& loader, StreamRun run);
};

}  // namespace rota::internal
