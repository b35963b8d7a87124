#include "stream/shard_feed.hpp"

#include <algorithm>
#include <utility>

namespace rota::internal {
namespace {

std::int64_t batch_of(std::int64_t global_batch_size, const World& world) {
  const std::int64_t first = share(global_batch_size, world.rank, world.size);
  return std::max<std::int64_t>(share(global_batch_size, world.rank + 1, world.size) - first, 1);
}

}  // namespace

ShardFeed::ShardFeed(const StreamSource& source, BatchPool& pool, const StreamLoaderOptions& options,
                     const World& world, std::vector<int> owners)
    : source_(&source),
      pool_(&pool),
      options_(&options),
      world_(world),
      batch_size_(batch_of(options.global_batch_size, world)),
      owners_(std::move(owners)) {
  for (std::size_t s = 0; s < owners_.size(); ++s) {
    if (owners_[s] == world.rank) owned_.push_back({static_cast<std::int64_t>(s)});
  }
  begin_epoch(0);
  prepare();
  if (error_) std::rethrow_exception(error_);
}

void ShardFeed::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  run_ = {.owners = owners_, .places = {}, .first = 0};
  for (const ShardId shard : owned_) run_.places.push_back({.shard = shard, .cursor = {}});
}

// Begins to read where the run is, if that is not under way.
void ShardFeed::prepare() noexcept {
  if (ring_) return;
  try {
    error_ = nullptr;
    ring_.emplace(
        *source_, *pool_, *options_, batch_size_,
        RingStart{
            .world = world_, .epoch = epoch_, .places = run_.places, .first = run_.first, .later = owned_});
  } catch (...) {
    error_ = std::current_exception();
  }
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
