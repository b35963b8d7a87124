#pragma once

// The order of the samples: (epoch, shard, position) <-> sample id, a pure function. Next: schedule.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "order/permutation.hpp"
#include "order/shard_plan.hpp"
#include "rota/types.hpp"

namespace rota::internal {

/// The version of the arithmetic behind every order. A checkpoint of another version is refused.
inline constexpr std::int64_t kOrderVersion = 1;

/// Samples [begin, end).
struct SampleRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

/// Consecutive positions of one shard in one epoch.
struct ShardSpan {
  std::int64_t epoch = 0;
  ShardId shard = {};
  std::int64_t position = 0;
  std::int64_t count = 0;
  SlotKind kind = SlotKind::sample;  ///< real or pad
  std::int32_t dataset = 0;          ///< of a mixture
  friend bool operator==(const ShardSpan&, const ShardSpan&) = default;
};

/// Where a sample stands in an epoch.
struct ShardPosition {
  ShardId shard = {};
  std::int64_t position = 0;
  friend bool operator==(const ShardPosition&, const ShardPosition&) = default;
};

/// Where the blocks of Shuffle::block begin, and where the last one ends, if they are the units of a source.
/// Null: they are of BlockShape::samples.
using BlockBegins = std::shared_ptr<const std::vector<std::int64_t>>;

/// The order of one epoch, keys ready. *Immutable.*
class EpochOrder {
 public:
  /// The samples of `spans`, whose epoch is not looked at, one after the other into out[0, sum of counts).
  void samples(std::span<const ShardSpan> spans, SampleId* out) const noexcept;
  /// The inverse: where sample `id` of [0, N) stands.
  [[nodiscard]] ShardPosition locate(SampleId id) const noexcept;

  [[nodiscard]] std::int64_t epoch() const noexcept { return epoch_; }

  /// Shuffle::block: the window at `position` of `shard`, of those of the dataset, in the order of the epoch.
  [[nodiscard]] std::int64_t window_at(ShardId shard, std::int64_t position) const noexcept {
    return slot_at(plan_.begin(shard.value) + position) / shape_.blocks;
  }
  /// The blocks of that window: samples side by side.
  [[nodiscard]] std::vector<SampleRange> blocks_of(std::int64_t window) const;

 private:
  friend class Order;
  EpochOrder(const ShardPlan& plan, Shuffle shuffle, std::uint64_t seed, BlockShape shape,
             const BlockBegins& begins, std::int64_t epoch);
  [[nodiscard]] Permutation within(std::int64_t shard) const noexcept;
  void within_samples(const ShardSpan& span, SampleId* out) const noexcept;

  // Shuffle::block. A slot is the place of a block in this epoch; of equal blocks, the one with the short
  // last block shifts those after.
  [[nodiscard]] std::int64_t block_begin(std::int64_t block) const noexcept {
    return begins_ ? (*begins_)[static_cast<std::size_t>(block)] : block * shape_.samples;
  }
  [[nodiscard]] std::int64_t slot_begin(std::int64_t slot) const noexcept;
  [[nodiscard]] std::int64_t slot_at(std::int64_t index) const noexcept;
  [[nodiscard]] std::int64_t window_begin(std::int64_t window) const noexcept;
  [[nodiscard]] Permutation window(std::int64_t window) const noexcept;
  void block_samples(std::int64_t index, std::int64_t count, SampleId* out) const noexcept;
  [[nodiscard]] std::int64_t block_index(SampleId id) const noexcept;

  ShardPlan plan_;
  Shuffle shuffle_;
  std::uint64_t seed_;
  BlockShape shape_;  // clamped to the dataset
  std::int64_t epoch_;
  std::int64_t blocks_;          // how many there are
  Permutation whole_;            // of all samples (global) or of the blocks (block)
  std::int64_t missing_ = 0;     // samples by which the last block is short
  std::int64_t short_slot_ = 0;  // where the last block is
  BlockBegins begins_;           // of units, as is the next
  BlockBegins slots_;            // where slots begin
};

/// The order of every epoch: a plan, a kind of shuffle and a seed. *Immutable.*
class Order {
 public:
  Order(ShardPlan plan, Shuffle shuffle, std::uint64_t seed, BlockShape shape = {}, BlockBegins begins = {});

  /// O(1), but O(blocks) where these are units.
  [[nodiscard]] EpochOrder epoch(std::int64_t epoch) const {
    return {plan_, shuffle_, seed_, shape_, begins_, epoch};
  }

  /// The order of the interleave groups in `epoch`: the k-th to be consumed is group p(k). Nothing where they
  /// are consumed in plain order: under Shuffle::none, or where there is only one.
  [[nodiscard]] std::optional<Permutation> groups(std::int64_t epoch) const noexcept;

  [[nodiscard]] const ShardPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] Shuffle shuffle() const noexcept { return shuffle_; }
  /// Of its blocks, if they are units of its source.
  [[nodiscard]] const BlockBegins& block_begins() const noexcept { return begins_; }

 private:
  ShardPlan plan_;
  Shuffle shuffle_;
  std::uint64_t seed_;
  BlockShape shape_;
  BlockBegins begins_;
};

}  // namespace rota::internal
