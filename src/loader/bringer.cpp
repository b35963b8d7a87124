#include "loader/bringer.hpp"

#include <utility>

namespace rota::internal {

void Bringer::bring() {
  const bool is_due = brought_ == 0 || delivered_ + ahead_ == brought_;
  if (is_over_ || !is_due) return;
  const std::int64_t until = delivered_ + ahead_ + stretch_;
  Position at = at_;
  ids_.clear();
  std::int64_t step = brought_;
  for (; step < until && planner_.plan(at, slots_); ++step) {
    ids_.insert(ids_.end(), slots_.ids.begin(), slots_.ids.end());
    at = slots_.global.next;
  }
  here_ = {source_.bring(ids_), std::move(here_[0])};
  is_over_ = step < until;
  brought_ = until;
  at_ = at;
}

}  // namespace rota::internal
