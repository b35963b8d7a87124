#include "loader/bringer.hpp"

namespace rota::internal {

void Bringer::bring() {
  if (delivered_ < next_call_) return;
  const std::int64_t until = delivered_ + ahead_ + kStepsAtOnce;
  Position at = at_;
  ids_.clear();
  std::int64_t step = brought_;
  for (; step < until && planner_.plan(at, slots_); ++step) {
    ids_.insert(ids_.end(), slots_.ids.begin(), slots_.ids.end());
    at = slots_.global.next;
  }
  is_over_ = step < until;
  // At the end of the run, whoever has known of it for long and whoever sees it now do the same.
  if (step == delivered_) return;
  here_.push_back({.until = step, .kept = source_.bring(ids_)});
  while (here_.front().until <= delivered_) here_.pop_front();
  brought_ = step;
  at_ = at;
  next_call_ = delivered_ + kStepsAtOnce;
}

}  // namespace rota::internal
