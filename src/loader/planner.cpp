#include "loader/planner.hpp"

#include <algorithm>

#include "rota/types.hpp"

namespace rota::internal {

bool Planner::plan(const Position& at, Slots& out) {
  if (!schedule_.batch(at, global_batch_size_, out.global)) return false;
  out.first = share(out.global.size, world_.rank, world_.size);
  const std::int64_t end = share(out.global.size, world_.rank + 1, world_.size);
  schedule_.slice(out.global, out.first, end, spans_);
  const auto count = static_cast<std::size_t>(end - out.first);
  out.ids.resize(count);
  out.marks.resize(count);
  out.epochs.resize(count);
  std::size_t slot = 0;
  for (auto first = spans_.cbegin(); first != spans_.cend();) {
    const auto last =
        std::find_if(first, spans_.cend(), [&](const Span& s) { return s.epoch != first->epoch; });
    if (!epoch_ || epoch_->epoch() != first->epoch) epoch_.emplace(order().epoch(first->epoch));
    epoch_->samples(std::span(first, last), out.ids.data() + slot);
    for (; first != last; ++first) {
      const auto length = static_cast<std::size_t>(first->count);
      std::fill_n(out.marks.begin() + static_cast<std::ptrdiff_t>(slot), length, first->mark);
      std::fill_n(out.epochs.begin() + static_cast<std::ptrdiff_t>(slot), length, first->epoch);
      slot += length;
    }
  }
  return true;
}

}  // namespace rota::internal
