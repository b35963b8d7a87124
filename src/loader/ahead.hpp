#pragma once

// What sources are told before they are asked to read.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "order/planner.hpp"
#include "rota/loader.hpp"
#include "source/read_plan.hpp"

namespace rota::internal {

/// Has a source bring the blocks of Shuffle::block near before they are read. A batch reads a few samples
/// of each block of a window, all over the block; the window's blocks are read as wholes meanwhile, and those
/// of the next window, too. *One thread* at a time.
class BlocksAhead {
 public:
  /// Both must outlive it.
  BlocksAhead(const Source& source, const RunOrder& order, const LoaderOptions& options, World world);

  /// Of the batch that `planner` has planned. Does nothing more once the source cannot, or where windows take
  /// more than LoaderOptions::read_ahead_bytes.
  void look(const Planner& planner) noexcept;

 private:
  struct Dataset {
    std::int64_t epoch = -1;
    std::map<std::int64_t, std::int64_t> next = {};  // by shard that is being read: the window to be brought
  };
  void look(const EpochOrder& order, const ShardSpan& span);
  void bring(const EpochOrder& order, std::int64_t window, std::int64_t first_id);

  const Source& source_;
  const RunOrder& order_;
  double most_bytes_;  // of a sample on average, so that all that is ahead is no more than it may be
  bool is_on_ = true;
  double bytes_ = 0;    // that were brought
  double samples_ = 0;  // of so many
  std::vector<Dataset> datasets_;
};

/// Tells a source, some way ahead, which samples this rank will read. *One thread* at a time.
class PlanAhead {
 public:
  /// Of what `plan_of` returned.
  PlanAhead(std::shared_ptr<ReadPlan> plan, const LoaderOptions& options, World world);
  /// Null where the source needs none.
  static std::shared_ptr<ReadPlan> plan_of(const Source& source, const LoaderOptions& options);

  /// The next batch of `run`, of so many samples of all ranks, has been planned, in order.
  void follow(const Run& run, std::int64_t samples) noexcept;

 private:
  std::shared_ptr<ReadPlan> plan_;  // null: the source needs none
  std::optional<Run> told_;         // before the batch to be told
  RunSlice slice_;                  // of that
  World world_;
  Split split_;
  std::int64_t ahead_ = 0;  // those that were told, and not yet planned
};

}  // namespace rota::internal
