#include "loader/worker_parts.hpp"

#include <algorithm>
#include <cstdint>

namespace rota::internal {
namespace {

void deal_shards(std::span<const ShardSpan> spans, std::int64_t ranks,
                 std::vector<std::vector<SlotRange>>& parts) {
  std::size_t begin = 0;
  for (const ShardSpan& span : spans) {
    const std::size_t end = begin + static_cast<std::size_t>(span.count);
    auto& own = parts[static_cast<std::size_t>(span.shard.value / ranks) % parts.size()];
    if (!own.empty() && own.back().end == begin) {
      own.back().end = end;
    } else {
      own.push_back({begin, end});
    }
    begin = end;
  }
}

std::int64_t ranks_by_shard(const LoaderOptions& options, World world) {
  return options.rank_split == Split::by_shard ? world.size : 1;
}

}  // namespace

void deal(std::span<const ShardSpan> spans, const LoaderOptions& options, World world,
          std::vector<std::vector<SlotRange>>& parts) {
  parts.resize(static_cast<std::size_t>(std::max(options.workers, 1)));
  for (auto& own : parts) own.clear();
  if (options.worker_split == Split::by_shard)
    return deal_shards(spans, ranks_by_shard(options, world), parts);
  std::int64_t size = 0;
  for (const ShardSpan& span : spans) size += span.count;
  const std::int64_t workers = std::ssize(parts);
  if (options.worker_split == Split::interleaved && workers > 1) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i)
      parts[i % parts.size()].push_back({i, i + 1});
    return;
  }
  for (std::int64_t w = 0; w < workers; ++w) {
    parts[static_cast<std::size_t>(w)].push_back({static_cast<std::size_t>(share(size, w, workers)),
                                                  static_cast<std::size_t>(share(size, w + 1, workers))});
  }
}

WorkerInfo describe_worker(int worker, std::int64_t shards, const LoaderOptions& options, World world) {
  const bool by_worker = options.worker_split == Split::by_shard;
  const int workers = std::max(options.workers, 1);
  const std::int64_t ranks = ranks_by_shard(options, world);
  const std::int64_t first = (ranks > 1 ? world.rank : 0) + ranks * (by_worker ? worker : 0);
  return {.world = world,
          .worker = worker,
          .workers = workers,
          .shards = ShardList::every(ranks * (by_worker ? workers : 1), first, shards)};
}

}  // namespace rota::internal
