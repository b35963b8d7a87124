#pragma once

// Whose turn it is: which samples make a global batch, and which slice of it belongs to whom. Pure
// arithmetic, the same on every rank. Next: mixture_schedule.hpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "order/order.hpp"
#include "order/turns.hpp"
#include "rota/types.hpp"

namespace rota::internal {

/// Turns [begin, end) of one epoch, part of a global batch.
struct TurnRange {
  std::int64_t epoch = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  SlotKind kind = SlotKind::sample;
  std::int32_t dataset = 0;  ///< of a mixture
  friend bool operator==(const TurnRange&, const TurnRange&) = default;
};

/// One step of all ranks together.
struct GlobalBatch {
  Position start;                      ///< before the batch
  Position next;                       ///< after it
  std::int64_t size = 0;               ///< slots, padding included
  std::int64_t real = 0;               ///< samples that count
  std::vector<TurnRange> turn_ranges;  ///< what fills the slots, in order
};

/// Where a sample has its turn: epoch, and how many samples the epoch consumes before it.
struct Turn {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;
  friend bool operator==(const Turn&, const Turn&) = default;
};

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

/// The schedule of a run. Round p takes position p of every shard of the current group that still has one, so
/// any number of consumed samples Q gives every shard its cursor. The next B turns are the next global batch;
/// its canonical order is (epoch, group, shard, position). Slices of it are equal and consecutive.
///
/// *One thread*: it remembers where it was last, so that going forward costs O(1) per sample and O(log L) per
/// slice and per shard that ends; going elsewhere costs O(L) once where shard lengths are ragged. At most 24
/// bytes a shard.
class Schedule {
 public:
  Schedule(Order order, Tail tail, std::int64_t epochs);

  /// Throws Error{out_of_range} for a position outside the run.
  void require(const Position& at) const;

  /// The global batch of `batch_size`, 1 to kMaxBatchSize, that starts at `at`, into `out`; false at the end
  /// of the last epoch. Pure. Throws as `require`.
  bool batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const;

  /// Slots [begin, end) of `batch` in canonical order, into `out` (cleared first) as spans of shards.
  void slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out) {
    slice(std::span(this, 1), batch, begin, end, out);
  }
  /// The same of a mixture's batch, with a schedule for each dataset.
  static void slice(std::span<Schedule> datasets, const GlobalBatch& batch, std::int64_t begin,
                    std::int64_t end, std::vector<ShardSpan>& out);

  /// The cursors at `at` of shards [first, first + out.size() / 2): pairs (epoch, position). An exhausted
  /// shard stands at its length. Throws Error{out_of_range} for shards or a position that there are not.
  void cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out);

  /// The turn of sample `id` in `epoch`: when it is, or was, read. O(shards of a group).
  [[nodiscard]] Turn turn(std::int64_t epoch, SampleId id);

  /// Where the batch starts that has `turn`, in a run that goes on from `at` with batches of `batch_size`; of
  /// a turn before `at`, one that came to `at` with such batches from its very beginning. Nothing for a turn
  /// that is dropped, past the last epoch or past step 2^63 - 1. O(1). Throws as `batch` does, and
  /// Error{unsupported} for a turn before `at` where such batches do not lead to `at`.
  [[nodiscard]] std::optional<Position> find(const Position& at, std::int64_t batch_size,
                                             const Turn& turn) const;

  /// Where `step` starts, in a run that goes on from `at` with batches of `batch_size`; of a step before
  /// `at`, one that came to `at` with such batches from its very beginning. Nothing past the last step. O(1).
  /// Throws as `find` does, and Error{out_of_range} for a step below 0.
  [[nodiscard]] std::optional<Position> start_of(const Position& at, std::int64_t batch_size,
                                                 std::int64_t step) const;

  [[nodiscard]] const Order& order() const noexcept { return order_; }

 private:
  [[nodiscard]] const ShardPlan& plan() const noexcept { return order_.plan(); }
  /// Steps in what is `left` of an epoch, where none goes into the next.
  [[nodiscard]] std::int64_t steps(std::int64_t left, std::int64_t size) const noexcept;
  [[nodiscard]] std::optional<Position> find_ahead(const Position& at, std::int64_t size,
                                                   const Turn& turn) const;
  [[nodiscard]] bool leads_to(const Position& at, std::int64_t size) const;
  [[noreturn]] static void refuse_past(const std::string& what, const Position& at, std::int64_t size);
  void append(const TurnRange& range, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out);

  Order order_;
  Tail tail_;
  std::int64_t epochs_;
  EpochGroups groups_;  // of the epoch at hand
  Turns turns_;
};

}  // namespace rota::internal
