#pragma once

// What a run has delivered, as an audit ticks it off.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "trace/phases.hpp"

namespace rota::cli {

struct Dataset {
  std::int64_t first_id = 0;
  std::int64_t samples = 0;    // -1: unknown
  std::int64_t open_from = 0;  // epochs below are closed
  std::int64_t highest = 0;    // epoch of those that count
};

using SetEpoch = std::pair<std::int64_t, std::int64_t>;  // dataset or shard, and epoch

struct Track {  // what was delivered of a dataset or a stream's shard in an epoch
  std::int64_t count = 0;
  std::vector<bool> seen = {};            // of a dataset
  std::vector<trace::Fact> samples = {};  // of a shard
  std::int64_t next = 0;                  // position in a shard
};

using Tracks = std::map<SetEpoch, Track>;

// Whether a sample of a dataset was delivered in an epoch, which is over, or still open.
inline bool has(const Tracks& tracks, const Dataset& dataset, const SetEpoch& of, std::int64_t id) {
  if (of.second < dataset.open_from) return true;
  const auto track = tracks.find(of);
  if (track == tracks.end() || track->second.seen.empty()) return false;
  return track->second.seen[static_cast<std::size_t>(id - dataset.first_id)];
}

}  // namespace rota::cli
