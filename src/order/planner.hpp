#pragma once

// Which samples a rank has in each batch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "order/balance.hpp"
#include "order/run_order.hpp"
#include "order/schedule.hpp"
#include "rota/run.hpp"

namespace rota::internal {

/// Finds out which samples a rank has in each batch of runs of one order, and what else takes their
/// schedules. Remembers where it was last. One thread at a time.
class Planner {
 public:
  explicit Planner(std::shared_ptr<const RunOrder> order);

  /// As Run::slice.
  bool plan(const Run& run, World world, Split split, const Balance& balance, RunSlice& out);
  /// The last batch planned, and the positions that were read of it.
  [[nodiscard]] const GlobalBatch& batch() const noexcept { return batch_; }
  [[nodiscard]] const std::vector<ShardSpan>& spans() const noexcept { return spans_; }
  /// The order of the epoch of `dataset` that was last planned.
  [[nodiscard]] const EpochOrder& order(std::int32_t dataset) const {
    return epochs_[static_cast<std::size_t>(dataset)].value();
  }

  /// What the run leaves out of it; null: nothing.
  [[nodiscard]] const std::shared_ptr<const std::vector<SampleId>>& left_out() const noexcept {
    return left_out_;
  }

  /// As Run::when.
  std::optional<BatchSlot> when(const Run& run, SampleId id, std::int64_t epoch, int ranks, Split split,
                                const Balance& balance);
  /// The turns of samples, ascending.
  OpenTurns turns_of(std::span<const SampleId> ids, std::span<const std::int64_t> epochs);
  /// As Run::cursors.
  void cursors(const Run& run, std::int64_t first, std::span<std::int64_t> out);

 private:
  std::optional<Position> find(const Run& run, std::size_t dataset, std::int64_t epoch, SampleId id);
  void take(World world, RunSlice& out);
  void take_some(World world, Split split, RunSlice& out);
  void deal(int ranks, const Balance& balance);
  void take_in_balance(World world, const Balance& balance, RunSlice& out);
  void name(std::span<const ShardSpan> spans, RunSlice& out);
  void leave_out(RunSlice& out) const;
  std::int64_t count_left_out();

  std::shared_ptr<const RunOrder> order_;
  std::vector<Schedule> schedules_;                // of each dataset, as is the next
  std::vector<std::optional<EpochOrder>> epochs_;  // the last that was looked at
  GlobalBatch batch_;
  std::vector<ShardSpan> spans_;      // of this rank
  std::vector<ShardSpan> all_;        // of all ranks
  RunSlice whole_;                    // of all ranks, where they are dealt in balance
  std::vector<std::int64_t> begins_;  // and the first slot of each span
  BalancedBatch balanced_;
  std::shared_ptr<const std::vector<SampleId>> left_out_;  // of the batch at hand
  struct Gone {
    std::shared_ptr<const std::vector<SampleId>> of;
    std::int64_t epoch = 0;
    std::vector<std::int64_t> turns = {};  // ascending
  };
  std::vector<Gone> gone_;  // of each dataset, in the epoch that was last counted
};

}  // namespace rota::internal
