#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "loader/run_order.hpp"
#include "order/mixture_schedule.hpp"
#include "order/order.hpp"
#include "order/schedule.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// Of one dataset, or of a mixture.
using AnySchedule = std::variant<Schedule, MixtureSchedule>;

/// Samples [begin, end) of a rank's slice.
struct SlotRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Which samples a rank has in a batch, and which of them its workers.
struct Slots {
  GlobalBatch global;
  std::vector<std::int64_t> slots;  // of the global batch
  std::vector<SampleId> ids;
  std::vector<SlotKind> kinds;
  std::vector<std::int64_t> epochs;
  std::vector<std::int32_t> datasets;
  std::vector<std::vector<SlotRange>> parts;  // of each worker; of the caller, where there are none
};

/// Finds out which samples a rank has in each batch. One thread at a time.
class Planner {
 public:
  /// `run_order` must outlive it; its mixture may change.
  Planner(const RunOrder& run_order, const LoaderOptions& options, World world);

  /// This rank's part of the batch at `at`; false at the end of the run.
  bool plan(const Position& at, Slots& out);
  /// Where sample `id` is read in `epoch` by a run that is at `at`: as Loader::when.
  std::optional<BatchSlot> when(const Position& at, SampleId id, std::int64_t epoch);
  /// The positions that the last batch planned reads.
  [[nodiscard]] const std::vector<ShardSpan>& spans() const noexcept { return spans_; }
  /// The order of the epoch of `dataset` that was last planned.
  [[nodiscard]] const EpochOrder& order(std::int32_t dataset) const {
    return epochs_[static_cast<std::size_t>(dataset)].value();
  }
  /// What worker `worker` is told. Any thread, while nothing changes.
  [[nodiscard]] WorkerInfo describe(int worker) const noexcept;

 private:
  std::optional<Position> find(const Position& at, std::size_t dataset, std::int64_t epoch, SampleId id);
  [[nodiscard]] int rank_of(std::int64_t slot, std::int64_t slots, ShardId shard) const noexcept;
  void take(Slots& out);
  void take_shards(Slots& out);
  void take_turns(Slots& out);
  void deal(Slots& out) const;
  void deal_shards(Slots& out) const;

  AnySchedule schedule_;
  const RunOrder* run_order_;
  std::vector<std::optional<EpochOrder>> epochs_;  // per dataset: the last that was looked at
  std::int64_t shards_;
  std::int64_t global_batch_size_;
  World world_;
  Split rank_split_;
  Split worker_split_;
  std::int64_t workers_;
  std::vector<ShardSpan> spans_;  // of this rank
  std::vector<ShardSpan> all_;    // of all ranks
};

}  // namespace rota::internal
