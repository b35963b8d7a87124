#include "loader/plan_ahead.hpp"

#include <algorithm>

namespace rota::internal {

PlanAhead::PlanAhead(const Source& source, const RunOrder& run_order, const LoaderOptions& options,
                     World world)
    : plan_(source.plan_reads((options.read_ahead_batches + 2) * options.global_batch_size)),
      planner_(run_order, options, world),
      ranks_(world.size) {}

void PlanAhead::follow(const Position& at, std::int64_t samples) noexcept {
  // So many at a time that all are told before long, and the first batch does not wait.
  constexpr std::int64_t kMostSamples = 1 << 14;
  if (!plan_) return;
  try {
    const std::int64_t want = plan_->samples_ahead() * ranks_;
    if (want == 0) return plan_.reset();
    const std::int64_t most = std::min(want, ahead_ + kMostSamples);
    if (!next_) next_ = at;
    while (ahead_ < std::max(most, samples) && planner_.plan(*next_, slots_)) {
      next_ = slots_.global.next;
      plan_->tell(slots_.ids);
      ahead_ += slots_.global.size;
    }
    ahead_ -= samples;
  } catch (...) {
    plan_.reset();  // whoever reads will be told
  }
}

}  // namespace rota::internal
