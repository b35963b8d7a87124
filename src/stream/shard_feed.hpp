#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "stream/feed.hpp"
#include "stream/ring.hpp"

namespace rota::internal {

/// What a shard weighs of which nobody knows how much is in it.
inline constexpr std::int64_t kUnknownWeight = -1;

/// The rank that owns each shard, of `ranks`: the heaviest shards first, each to the rank that has least so
/// far (then fewest shards, then the lowest number). Shards of unknown weight weigh the mean of the others,
/// or all alike. A pure function of `weights`, which are the same on all ranks.
std::vector<int> share_out(std::span<const std::int64_t> weights, int ranks);

/// Batches from the shards that this rank owns, read by a ring, which is made anew after an error.
class ShardFeed final : public Feed {
 public:
  /// `owned` are this rank's shards, in each epoch begun; `source`, `pool` and `options` must outlive it.
  ShardFeed(const StreamSource& source, BatchPool& pool, const StreamLoaderOptions& options,
            const World& world, std::vector<ShardId> owned);

  [[nodiscard]] std::optional<FeedHead> peek() override;
  [[nodiscard]] FeedHead wait() override;
  std::unique_ptr<BatchMemory> take() override;
  void add_stats(LoaderStats& stats) const override;

  [[nodiscard]] const ShardRun& run() const noexcept { return run_; }
  /// Goes on from `run`, of `epoch`. What was read ahead is dropped.
  void restart(std::int64_t epoch, ShardRun run);

 private:
  void begin_epoch(std::int64_t epoch);
  void prepare() noexcept;
  [[nodiscard]] FeedHead failed() const noexcept { return {.kind = FeedHead::Kind::failed, .epoch = epoch_}; }

  const StreamSource* source_;
  BatchPool* pool_;
  const StreamLoaderOptions* options_;
  World world_;
  std::int64_t batch_size_;
  std::vector<ShardId> owned_;  // in each epoch begun
  std::int64_t epoch_ = 0;
  ShardRun run_;
  std::exception_ptr error_;  // of a ring that cannot be made
  std::optional<StreamRing> ring_;
};

}  // namespace rota::internal
