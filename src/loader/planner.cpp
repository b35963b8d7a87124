#include "loader/planner.hpp"

#include <algorithm>

#include "rota/types.hpp"

namespace rota::internal {

Planner::AnySchedule Planner::make_schedule(const Recipe& recipe, const LoaderOptions& options) {
  if (!recipe.mixing) return Schedule(recipe.orders.front(), options.tail, options.epochs);
  return MixtureSchedule(recipe.orders, recipe.mixing->rules, recipe.mixing->turns);
}

Planner::Planner(const Recipe& recipe, const LoaderOptions& options, World world)
    : schedule_(make_schedule(recipe, options)),
      global_batch_size_(options.global_batch_size),
      world_(world) {
  for (std::size_t d = 0; d < recipe.orders.size(); ++d) {
    datasets_.push_back({.order = recipe.orders[d], .first_id = recipe.first_id(d), .epoch = std::nullopt});
  }
}

bool Planner::plan(const Position& at, Slots& out) {
  const bool is_there = std::visit(
      [&](const auto& schedule) { return schedule.batch(at, global_batch_size_, out.global); }, schedule_);
  if (!is_there) return false;
  out.first = share(out.global.size, world_.rank, world_.size);
  const std::int64_t end = share(out.global.size, world_.rank + 1, world_.size);
  std::visit([&](auto& schedule) { schedule.slice(out.global, out.first, end, spans_); }, schedule_);
  const auto count = static_cast<std::size_t>(end - out.first);
  out.ids.resize(count);
  out.marks.clear();
  out.epochs.clear();
  out.datasets.clear();
  for (auto first = spans_.cbegin(); first != spans_.cend();) {
    const auto last = std::find_if(first, spans_.cend(), [&](const Span& span) {
      return span.epoch != first->epoch || span.dataset != first->dataset;
    });
    Dataset& dataset = datasets_[static_cast<std::size_t>(first->dataset)];
    if (!dataset.epoch || dataset.epoch->epoch() != first->epoch) {
      dataset.epoch.emplace(dataset.order.epoch(first->epoch));
    }
    const std::size_t slot = out.marks.size();
    dataset.epoch->samples(std::span(first, last), out.ids.data() + slot);
    for (; first != last; ++first) {
      const auto length = static_cast<std::size_t>(first->count);
      out.marks.insert(out.marks.end(), length, first->mark);
      out.epochs.insert(out.epochs.end(), length, first->epoch);
      out.datasets.insert(out.datasets.end(), length, first->dataset);
    }
    for (std::size_t i = slot; i < out.marks.size(); ++i) out.ids[i].value += dataset.first_id;
  }
  return true;
}

}  // namespace rota::internal
