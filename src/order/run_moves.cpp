// How runs are moved, and sent on by other batches, weights and plans.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/planner.hpp"
#include "order/run_order.hpp"
#include "rota/run.hpp"

namespace rota {

using internal::MixtureSteps;
using internal::RunAccess;
using internal::RunPath;

std::vector<std::int64_t> internal::RunAccess::had(const Run& run) {
  const auto* const mixed = std::get_if<MixtureSteps>(&steps(run));
  std::vector<std::int64_t> samples;
  for (std::size_t d = 0; d < run.order_->orders.size(); ++d) {
    const Position at = mixed == nullptr ? run.position() : mixed->place(d, run.position());
    const i128 all = i128{at.epoch} * run.order_->orders[d].plan().samples() + at.consumed;
    samples.push_back(static_cast<std::int64_t>(std::min<i128>(all, kMaxCount)));
  }
  return samples;
}

void internal::RunAccess::require_mixture(const Run& run, std::string_view verb, std::size_t datasets) {
  const std::size_t own = run.mixture() == nullptr ? 0 : run.order_->orders.size();
  if (own == datasets && own > 0) return;
  throw failure(ErrorCode::invalid_argument, "{} of a mixture of {} datasets: this run {}", verb, datasets,
                own == 0 ? "mixes none" : fmt::format("mixes {}", own));
}

std::optional<std::pair<std::int64_t, std::size_t>> internal::RunAccess::turns_of_absent(const Run& run) {
  for (const Stretch& stretch : run.path_->stretches()) {
    if (stretch.begin.step < RunAccess::stretch(run).begin.step) continue;
    for (const std::size_t d : run.order_->absent) {
      if (stretch.mixture()->weights[d] > 0) return std::pair(stretch.begin.step, d);
    }
  }
  return std::nullopt;
}

void internal::RunAccess::require_present(const Run& run) {
  const auto turns = turns_of_absent(run);
  if (!turns) return;
  throw failure(
      ErrorCode::invalid_argument,
      "give the dataset {} turns from step {} on: it was left out when the run went on; leave it out "
      "here, too, or make the loader with it again",
      run.order_->names[turns->second], turns->first);
}

namespace {

// By the rules of these steps.
std::shared_ptr<const internal::RunSteps> steps_by(const std::shared_ptr<const internal::RunSteps>& steps,
                                                   const std::optional<MixtureState>& mixture) {
  const auto* mixed = std::get_if<MixtureSteps>(steps.get());
  if (mixed == nullptr || !mixture || *mixture == mixed->turns().state()) return steps;
  return std::make_shared<const internal::RunSteps>(mixed->with(internal::WeightedTurns(*mixture)));
}

}  // namespace

void internal::RunAccess::go_to(Run& run, const RunPlace& place, bool are_same) {
  const auto require = [&](const std::optional<MixtureState>& mixture) {
    if (mixture || run.mixture() != nullptr)
      require_mixture(run, "go to a place", mixture ? mixture->weights.size() : 0);
  };
  require(place.mixture);
  const auto steps = steps_by(stretch(run).steps, place.mixture);
  std::visit([&](const auto& of) { of.require(place.position); }, *steps);
  const Stretch here{place.position, place.batch_size, steps};
  Stretch before{place.origin, place.batch_size, steps};
  const auto plan = std::make_shared<const RunPlan>(place.way ? place.way->plan : RunPlan());
  std::shared_ptr<const RunPath> path;
  if (place.way && are_same) {
    require(place.way->mixture);
    const Stretch first{place.way->begin, place.way->batch_size, steps_by(steps, place.way->mixture)};
    std::visit([&](const auto& of) { of.require(first.begin); }, *first.steps);
    path = std::make_shared<const RunPath>(first, place.way->takes_stages, plan, place.way->changes);
    const Stretch& there = path->at(place.position.step);
    const bool is_way = path->is_whole() && path->lead(place.position) &&
                        there.batch_size == here.batch_size && *there.steps == *steps;
    if (!is_way) path = nullptr;  // the text was made by a rota that knows of no ways, or for other epochs
  }
  const bool lead = are_same && before.lead(place.position);
  if (!path)
    path = std::make_shared<const RunPath>(lead ? before : here,
                                           lead && !place.way && place.origin == Position(), plan);
  run.path_ = std::move(path);
  run.position_ = place.position;
  set_open(run, {});
}

void internal::RunAccess::go_back(Run& run, const Position& at) {
  const RunPath& path = *run.path_;
  run.position_ = at;
  if (at.step >= path.begin().step) return;
  Stretch first = path.stretches().front();
  first.begin = at;
  run.path_ = std::make_shared<const RunPath>(first, false, path.plan(), path.changes());
}

void internal::RunAccess::change(Run& run, std::int64_t batch_size, std::vector<std::int64_t> weights) {
  run.path_ =
      std::make_shared<const RunPath>(run.path_->with({run.position_, batch_size, std::move(weights)}));
}

void internal::RunAccess::add_open(Run& run, const OpenTurns& more) {
  const auto before = open(run);
  OpenTurns all(before.begin(), before.end());
  all.insert(all.end(), more.begin(), more.end());
  set_open(run, std::move(all));
}

void Run::seek(const Position& position) {
  // What was changed by hand since goes with it.
  const bool is_known = std::ranges::none_of(
      path_->changes(), [&](const internal::ChangeByHand& one) { return one.at.step > position.step; });
  const internal::Stretch& now = RunAccess::stretch(*this);
  const internal::Stretch& there = is_known ? path_->at(position.step) : now;
  std::visit([&](const auto& steps) { steps.require(position); }, *there.steps);
  if (!is_known || !path_->lead(position)) {
    const bool is_planned = !plan().stages.empty();
    path_ = std::make_shared<const RunPath>(
        internal::Stretch{position, is_planned ? order_->given_batch_size : now.batch_size, there.steps},
        is_planned, path_->plan());
  }
  position_ = position;
  RunAccess::set_open(*this, {});
}

void Run::seek(const Position& position, const MixtureState& mixture) {
  RunAccess::require_mixture(*this, "go to a place", mixture.weights.size());
  const internal::Stretch& there =
      plan().stages.empty() ? RunAccess::stretch(*this) : path_->at(position.step);
  if (*there.mixture() == mixture) return seek(position);
  const auto steps = steps_by(there.steps, mixture);
  std::get<MixtureSteps>(*steps).require(position);
  internal::Stretch first{{}, there.batch_size, steps};
  if (!first.lead(position)) first.begin = position;
  path_ = std::make_shared<const RunPath>(std::move(first), false, path_->plan());
  position_ = position;
  RunAccess::set_open(*this, {});
}

void Run::seek_step(std::int64_t step) {
  const auto there = at(step);
  if (!there)
    throw internal::failure(ErrorCode::out_of_range, "go to step {}: the run has fewer steps", step);
  position_ = there->position_;
  RunAccess::set_open(*this, {});
}

void Run::restart() {
  const internal::Stretch& now = RunAccess::stretch(*this);
  std::optional<MixtureState> mixture;
  if (this->mixture() != nullptr)
    mixture = {.weights = order_->given, .counts = std::vector<std::int64_t>(order_->given.size())};
  path_ = std::make_shared<const RunPath>(
      internal::Stretch{{},
                        plan().stages.empty() ? now.batch_size : order_->given_batch_size,
                        steps_by(now.steps, mixture)},
      true, path_->plan());
  position_ = {};
  RunAccess::set_open(*this, {});
}

void Run::set_global_batch_size(std::int64_t size) {
  internal::OptionCheck("set a batch size").in_range("global_batch_size", size, 1, kMaxBatchSize);
  if (size == global_batch_size()) return;
  // What is too little for a batch of a stage that begins here stays out, whether steps led here or not.
  internal::GlobalBatch next;
  if (!plan().stages.empty() && RunAccess::batch(*this, next) && next.start.step == position_.step)
    position_ = next.start;
  RunAccess::change(*this, size, {});
}

void Run::set_weights(std::span<const double> weights) {
  RunAccess::require_mixture(*this, "set weights", weights.size());
  Run changed = *this;
  RunAccess::change(changed, 0, internal::quantise(weights));
  RunAccess::require_present(changed);
  path_ = changed.path_;
}

bool internal::RunAccess::replan(Run& run, const RunPlan& plan) {
  const RunPath& before = *run.path_;
  if (plan == *before.plan()) return true;
  const bool is_known = before.begin() == Position() || !before.plan()->stages.empty();
  auto made = std::make_shared<const RunPlan>(plan);
  std::vector<ChangeByHand> changes = before.changes();  // up to here: what was to come is the plan's
  std::erase_if(changes, [&](const ChangeByHand& one) { return one.at.step > run.position_.step; });
  // What was changed here just now gives way to a stage that begins here, and did not before.
  const auto begins_here = [&](const std::shared_ptr<const RunPlan>& by, std::vector<ChangeByHand> past) {
    past.pop_back();
    const Position& at = run.position_;
    return RunPath(before.first(), before.takes_stages(), by, std::move(past)).at(at.step).begin == at;
  };
  if (is_known && !changes.empty() && changes.back().at == run.position_ && begins_here(made, changes) &&
      !begins_here(before.plan(), changes))
    changes.pop_back();
  auto path = std::make_shared<const RunPath>(
      is_known
          ? RunPath(before.first(), before.takes_stages(), std::move(made), std::move(changes))
          : RunPath({run.position_, run.global_batch_size(), stretch(run).steps}, true, std::move(made)));
  if (!path->is_whole() || !path->lead(run.position_) ||
      (is_known && !path->is_same_until(before, run.position_)))
    return false;
  run.path_ = std::move(path);
  return true;
}

void Run::replan(const RunPlan& plan) {
  Run changed = *this;
  if (RunAccess::replan(changed, plan)) {
    RunAccess::require_present(changed);
    path_ = changed.path_;
    own_plan_ = path_->plan();
    return;
  }
  throw internal::failure(ErrorCode::mismatch, "go on by another plan: {}",
                          RunAccess::other_past(*this, plan));
}

Run internal::RunAccess::without_skip(const Run& run) {
  Run whole = run;
  RunPlan plan = run.plan();
  plan.skip.clear();
  whole.path_ =
      std::make_shared<const RunPath>(run.path_->with(std::make_shared<const RunPlan>(std::move(plan))));
  return whole;
}

std::string internal::RunAccess::other_past(const Run& run, const RunPlan& plan) {
  const RunPath& then = *run.path_;
  const RunPath now(then.first(), then.takes_stages(), std::make_shared<const RunPlan>(plan), then.changes());
  std::int64_t same = then.begin().step;
  for (std::int64_t end = run.position_.step; end - same > 1;) {
    const std::int64_t middle = same + (end - same) / 2;
    (then.is_same_until(now, {.step = middle}) ? same : end) = middle;
  }
  const auto told = [&](const RunPath& path) {
    const Stretch& stretch = path.at(same);
    const std::string weights =
        stretch.mixture() == nullptr
            ? ""
            : fmt::format(" by weights {}", fmt::join(stretch.mixture()->weights, ":"));
    const std::string without =
        stretch.left_out ? fmt::format(" without {} that are left out", stretch.left_out->size()) : "";
    return path.is_skipped(same) ? "left out"
                                 : fmt::format("of {} samples{}{}", stretch.batch_size, weights, without);
  };
  return fmt::format(
      "step {} is past, and was {}; by this plan it is {}; leave stages and skipped steps as they are "
      "that have begun, and add others behind; or go on from a checkpoint before it",
      same, told(then), told(now));
}

}  // namespace rota
