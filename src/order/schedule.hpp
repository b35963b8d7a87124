#pragma once

// Whose turn it is: which places of which shards the turns of a batch are, and which slice of it belongs to
// whom. Pure arithmetic, the same on every rank. Next: mixture_steps.hpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "order/order.hpp"
#include "order/steps.hpp"
#include "order/turns.hpp"
#include "rota/types.hpp"

namespace rota::internal {

/// When the interleave groups of one epoch have their turns. *One thread.*
class EpochGroups {
 public:
  /// From here on, those of `epoch`. O(groups) where that is another than before.
  void enter(const Order& order, std::int64_t epoch);

  /// The k-th group that is consumed, and which one a group is.
  [[nodiscard]] std::int64_t group(std::int64_t k) const { return order_ ? (*order_)(k) : k; }
  [[nodiscard]] std::int64_t place(std::int64_t group) const {
    return order_ ? order_->inverse(group) : group;
  }
  /// Turns of the epoch before the k-th group; of all groups, for k = size().
  [[nodiscard]] std::int64_t begin(std::int64_t k) const { return begins_[static_cast<std::size_t>(k)]; }
  /// Which group has turn `turn` of the epoch; the last, where there are fewer turns.
  [[nodiscard]] std::int64_t place_at(std::int64_t turn) const;
  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(begins_) - 1; }

 private:
  std::int64_t epoch_ = -1;
  std::optional<Permutation> order_;
  std::vector<std::int64_t> begins_;  // [groups + 1]
};

/// Whose turn it is. Round p takes position p of every shard of the current group that still has one, so
/// any number of consumed samples Q gives every shard its cursor. The next B turns are the next global batch;
/// its canonical order is (epoch, group, shard, position). Slices of it are equal and consecutive.
///
/// *One thread*: it remembers where it was last, so that going forward costs O(1) per sample and O(log L) per
/// slice and per shard that ends; going elsewhere costs O(L) once where shard lengths are ragged. At most 24
/// bytes a shard.
class Schedule {
 public:
  explicit Schedule(Order order);

  /// Slots [begin, end) of `batch` in canonical order, into `out` (cleared first) as spans of shards.
  void slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out) {
    slice(std::span(this, 1), batch, begin, end, out);
  }
  /// The same of a mixture's batch, with a schedule for each dataset.
  static void slice(std::span<Schedule> datasets, const GlobalBatch& batch, std::int64_t begin,
                    std::int64_t end, std::vector<ShardSpan>& out);

  /// The cursors at `at` of shards [first, first + out.size() / 2): pairs (epoch, position). An exhausted
  /// shard stands at its length.
  void cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out);

  /// The turn of sample `id` in `epoch`: when it is, or was, read. O(shards of a group).
  [[nodiscard]] Turn turn(std::int64_t epoch, SampleId id);

  /// The same of many, in no order. O(1) for each where shards are equal; else O(log L) for each, and for
  /// each shard of their groups.
  [[nodiscard]] std::vector<Turn> turns(std::int64_t epoch, std::span<const SampleId> ids);

  [[nodiscard]] const Order& order() const noexcept { return order_; }

 private:
  [[nodiscard]] const ShardPlan& plan() const noexcept { return order_.plan(); }
  void append(const TurnRange& range, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out);

  Order order_;
  EpochGroups groups_;  // of the epoch at hand
  Turns turns_;
};

}  // namespace rota::internal
