#pragma once

// Runs over streams, and what they are held to.

#include "stream/numbered_stream.hpp"
#include "test.hpp"

namespace rota::test {

/// What a shard gave in an epoch, in order, by its position.
using ByShard = std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::int64_t, Seen>>;

inline void add(const StreamBatch& batch, ByShard& all) {
  const auto samples = seen(batch);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    auto& shard = all[{batch.start().epoch, samples[i].first.shard.value}];
    EXPECT_TRUE(shard.emplace(batch.positions()[i], samples[i]).second) << to_string(samples[i].first);
  }
}

/// What `epochs` epochs are to give.
inline ByShard whole(const StreamSource& source, std::int64_t epochs) {
  ByShard all;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t s = 0; s < source.shards(); ++s) {
      std::int64_t position = 0;
      for (const Seen& sample : read_all(source, {s}, epoch)) all[{epoch, s}].emplace(position++, sample);
    }
  }
  return all;
}

inline std::vector<std::vector<Seen>> batches_of(StreamLoader& loader) {
  std::vector<std::vector<Seen>> batches;
  while (const auto batch = loader.next()) batches.push_back(seen(*batch));
  return batches;
}

}  // namespace rota::test
