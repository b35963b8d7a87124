#pragma once

// Whose turn it is: which samples make a global batch, and which slice of it belongs to whom. Pure
// arithmetic, the same on every rank. Next: mixture_schedule.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "order/order.hpp"
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

/// The schedule of a run. Round p takes position p of every shard of the current group that still has one, so
/// any number of consumed samples Q gives every shard its cursor. The next B turns are the next global batch;
/// its canonical order is (epoch, group, shard, position). Slices of it are equal and consecutive.
///
/// *One thread*: it remembers where it was last, so that going forward costs O(1) per sample and O(log L) per
/// slice and per shard that ends; going elsewhere costs O(L) once where shard lengths are ragged. At most 24
/// bytes a shard.
class Schedule {
 public:
  /// Throws Error{invalid_argument} for a tail that there is not, and epochs < 0.
  Schedule(Order order, Tail tail, std::int64_t epochs);
  ~Schedule();
  Schedule(Schedule&&) noexcept;
  Schedule& operator=(Schedule&&) noexcept;

  /// The global batch of `batch_size` that starts at `at`, into `out`; false at the end of the last epoch.
  /// Pure. Throws Error{invalid_argument} unless 1 <= batch_size <= kMaxBatchSize, Error{out_of_range} for a
  /// position outside the run.
  bool batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const;

  /// Slots [begin, end) of `batch` in canonical order, into `out` (cleared first) as spans of shards.
  void slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out);

  /// The cursors at `at` of shards [first, first + out.size() / 2): pairs (epoch, position). An exhausted
  /// shard stands at its length. Throws Error{out_of_range} for shards or a position that there are not.
  void cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out);

  /// The turn of sample `id` in `epoch`: when it is, or was, read. O(shards of a group) where lengths are
  /// ragged. Throws Error{out_of_range} for a sample or an epoch that there is not.
  [[nodiscard]] Turn turn(std::int64_t epoch, SampleId id);

  /// Where the batch starts that has `turn`, in a run that goes on from `at` with batches of `batch_size`; of
  /// a turn before `at`, one that came to `at` with such batches from its very beginning. Nothing for a turn
  /// that is dropped, past the last epoch or past step 2^63 - 1. O(1). Throws as `batch` does, and
  /// Error{unsupported} for a turn before `at` where such batches do not lead to `at`.
  [[nodiscard]] std::optional<Position> find(const Position& at, std::int64_t batch_size,
                                             const Turn& turn) const;

  [[nodiscard]] const Order& order() const noexcept;
  [[nodiscard]] Tail tail() const noexcept;
  [[nodiscard]] std::int64_t epochs() const noexcept;
  /// Bytes held, those shared with the plan included.
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rota::internal
