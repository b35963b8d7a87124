#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "order/order.hpp"
#include "order/schedule.hpp"
#include "order/weighted_turns.hpp"
#include "rota/types.hpp"

namespace rota::internal {

/// When a mixture ends, and how.
struct MixtureRules {
  MixtureEnd end = MixtureEnd::first_exhausted;
  std::int64_t steps = 0;
  std::int64_t passes = 1;  ///< over a dataset, with which it is exhausted
  Tail tail = Tail::partial;
};

/// Whose turn it is, in a mixture: what Schedule is for one dataset. Positions are in epoch 0 and count the
/// samples of the run. *One thread*, and as fast as a Schedule for each dataset.
class MixtureSchedule {
 public:
  /// An order for each dataset of `turns`, none of them of an empty one, all of as many shards.
  MixtureSchedule(const std::vector<Order>& orders, const MixtureRules& rules, WeightedTurns turns);

  /// As of Schedule. Throws Error{out_of_range} also for a position before weights were last set.
  void require(const Position& at) const;
  bool batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const;
  void slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out) {
    Schedule::slice(schedules_, batch, begin, end, out);
  }
  /// The shards of all datasets are numbered one dataset after the other.
  void cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out);

  /// As Schedule::find, for sample `id` of `dataset` in that one's `epoch`. Throws Error{unsupported} also
  /// for a turn before weights were last set.
  [[nodiscard]] std::optional<Position> find(const Position& at, std::int64_t batch_size, std::size_t dataset,
                                             std::int64_t epoch, SampleId id);

 private:
  void append(std::int64_t begin, std::int64_t end, SlotKind kind, std::vector<TurnRange>& out) const;
  [[nodiscard]] std::int64_t length(std::size_t d) const noexcept {
    return schedules_[d].order().plan().samples();
  }

  std::vector<Schedule> schedules_;
  MixtureRules rules_;
  WeightedTurns turns_;
  std::int64_t samples_;  // of the run, if weights stay; kNever where it has no end but by steps
};

}  // namespace rota::internal
