#pragma once

// Dispatches whose items say who they are.

#include "stream/numbered_stream.hpp"

namespace rota::test {

/// Item numbers of a step or of a run, in the order of the source.
using Items = Numbers;

/// The numbers of a batch's items, which must hold what a NumberedStream of one shard gives as those.
inline Items items_of(const Batch& batch, std::int64_t shards) {
  Items items;
  const auto samples = seen(batch);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const StreamId& id = batch.stream_ids()[i];
    const std::int64_t item = id.input * shards + id.shard.value;
    std::string bytes(16 + static_cast<std::size_t>(item % 5), static_cast<char>(item));
    std::memset(bytes.data(), 0, 8);
    std::memcpy(bytes.data() + 8, &item, 8);
    EXPECT_EQ(samples[i].second, bytes) << to_string(id);
    EXPECT_EQ(batch.positions()[i], id.input);
    EXPECT_EQ(id.output, 0);
    items.push_back(item);
  }
  return items;
}

/// Adds those of all of `parts`, sorted.
inline void add_sorted(const std::vector<Items>& parts, Items& all) {
  const auto first = std::ssize(all);
  for (const Items& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin() + first, all.end());
}

/// Items first, ..., first + count - 1 as each rank is to get them.
inline std::vector<Items> dealt(std::int64_t first, std::int64_t count, std::int64_t shards, Split split,
                                int ranks) {
  Items canonical = numbers_from(first, first + count);
  std::ranges::stable_sort(canonical, {}, [&](std::int64_t i) { return i % shards; });
  std::vector<Items> all(static_cast<std::size_t>(ranks));
  for (std::int64_t at = 0; at < count; ++at) {
    const std::int64_t item = canonical[static_cast<std::size_t>(at)];
    int rank = 0;
    while (split == Split::by_sample && at >= share(count, rank + 1, ranks)) ++rank;
    if (split == Split::by_shard) rank = static_cast<int>(item % shards % ranks);
    all[static_cast<std::size_t>(rank)].push_back(item);
  }
  return all;
}

}  // namespace rota::test
