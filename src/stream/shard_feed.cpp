#include "stream/shard_feed.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "core/caught.hpp"

namespace rota::internal {

namespace {

// The mean of the known weights, at least 1; halves are added by parts, so that no sum overflows.
std::int64_t mean_of(std::span<const std::int64_t> weights) {
  double sum = 0;
  std::int64_t known = 0;
  for (const std::int64_t weight : weights) {
    if (weight == kUnknownWeight) continue;
    sum += static_cast<double>(weight);
    ++known;
  }
  return known == 0 ? 1
                    : std::max<std::int64_t>(1, static_cast<std::int64_t>(sum / static_cast<double>(known)));
}

struct Load {
  double weight = 0;
  std::int64_t shards = 0;
  int rank = 0;
  friend bool operator>(const Load& a, const Load& b) {
    return std::tie(a.weight, a.shards, a.rank) > std::tie(b.weight, b.shards, b.rank);
  }
};

std::int64_t batch_of(std::int64_t global_batch_size, const World& world) {
  const std::int64_t first = share(global_batch_size, world.rank, world.size);
  return std::max<std::int64_t>(share(global_batch_size, world.rank + 1, world.size) - first, 1);
}

}  // namespace

std::vector<int> share_out(std::span<const std::int64_t> weights, int ranks) {
  const std::int64_t mean = mean_of(weights);
  const auto weight_of = [&](std::size_t s) { return weights[s] == kUnknownWeight ? mean : weights[s]; };
  std::vector<std::size_t> heaviest(weights.size());
  std::iota(heaviest.begin(), heaviest.end(), std::size_t{0});
  std::ranges::stable_sort(heaviest, std::greater<>(), weight_of);

  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int rank = 0; rank < ranks; ++rank) loads.push({.weight = 0, .shards = 0, .rank = rank});
  std::vector<int> owners(weights.size());
  for (const std::size_t s : heaviest) {
    Load least = loads.top();
    loads.pop();
    owners[s] = least.rank;
    least.weight += static_cast<double>(weight_of(s));
    ++least.shards;
    loads.push(least);
  }
  return owners;
}

ShardFeed::ShardFeed(const StreamSource& source, BatchPool& pool, const StreamLoaderOptions& options,
                     const World& world, std::vector<ShardId> owned)
    : source_(&source),
      pool_(&pool),
      options_(&options),
      world_(world),
      batch_size_(batch_of(options.global_batch_size, world)),
      owned_(std::move(owned)) {
  begin_epoch(0);
  prepare();
  if (error_) std::rethrow_exception(error_);
}

void ShardFeed::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  run_ = run_from_start(owned_);
}

// Begins to read where the run is, if that is not under way.
void ShardFeed::prepare() noexcept {
  if (ring_) return;
  error_ = thrown_by([&] {
    ring_.emplace(*source_, *pool_, *options_, batch_size_,
                  RingStart{.world = world_, .epoch = epoch_, .run = run_, .later = owned_});
  });
}

std::optional<FeedHead> ShardFeed::peek() {
  if (error_) return failed();
  return ring_ ? ring_->peek() : std::nullopt;
}

FeedHead ShardFeed::wait() {
  prepare();
  return error_ ? failed() : ring_->wait();
}

std::unique_ptr<BatchMemory> ShardFeed::take() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  const bool is_end = ring_->peek()->kind == FeedHead::Kind::epoch_end;
  std::unique_ptr<BatchMemory> batch;
  try {
    batch = ring_->take(run_);
  } catch (...) {
    ring_.reset();  // what the caller does until it is made anew may mend it
    throw;
  }
  if (is_end) begin_epoch(epoch_ + 1);
  return batch;
}

void ShardFeed::restart(std::int64_t epoch, ShardRun run) {
  ring_.reset();
  epoch_ = epoch;
  run_ = std::move(run);
  prepare();
}

void ShardFeed::add_stats(LoaderStats& stats) const {
  if (ring_) ring_->add_stats(stats);
}

}  // namespace rota::internal
