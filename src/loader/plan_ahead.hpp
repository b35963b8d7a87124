#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "loader/planner.hpp"
#include "source/read_plan.hpp"

namespace rota::internal {

/// Tells a source, some way ahead, which samples this rank will read. *One thread* at a time.
class PlanAhead {
 public:
  /// `source` and `run_order` must outlive it.
  PlanAhead(const Source& source, const RunOrder& run_order, const LoaderOptions& options, World world);

  /// A batch at `at`, of so many samples of all ranks, has been planned, in order.
  void follow(const Position& at, std::int64_t samples) noexcept;

 private:
  std::shared_ptr<ReadPlan> plan_;  // null: the source needs none
  Planner planner_;
  std::optional<Position> next_;  // the batch to be told
  Slots slots_;                   // of that
  int ranks_;
  std::int64_t ahead_ = 0;  // those that were told, and not yet planned
};

}  // namespace rota::internal
