#include "order/run_path.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/failure.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kJumps = 32;  // of weights that go in a line
constexpr std::int64_t kThousand = 1000;

template <typename Call>
auto ask(const Stretch& stretch, Call call) {
  return std::visit(call, *stretch.steps);
}

std::int64_t in_thousandths(double tokens) { return std::llround(tokens * kThousand); }

// What a place counts to, in a unit of stages. Of tokens 1000 to each.
i128 counted(const Stretch& stretch, const RunPlan& plan, Stage::Unit unit, const Position& at) {
  if (unit == Stage::Unit::steps) return at.step;
  if (const auto* steps = std::get_if<Steps>(stretch.steps.get())) {
    constexpr i128 kMostSamples = i128{1} << 73;  // no stage begins beyond
    const i128 samples = std::min(i128{steps->samples()} * at.epoch + at.consumed, kMostSamples);
    return unit == Stage::Unit::samples ? samples : samples * in_thousandths(plan.tokens_per_sample.front());
  }
  if (unit == Stage::Unit::samples) return at.consumed;
  const WeightedTurns& turns = std::get<MixtureSteps>(*stretch.steps).turns();
  i128 tokens = 0;
  for (std::size_t d = 0; d < turns.datasets(); ++d)
    tokens += i128{turns.count(d, at.consumed)} * in_thousandths(plan.tokens_per_sample[d]);
  return tokens;
}

// The first step of a stretch that starts at `amount` or behind it, if the stretch goes on for so long, or
// its end: other weights may go on there. Steps count up, so that one is found by halves: as exactly for a
// tail that leaves samples out as for tokens.
std::optional<Position> first_at(const Stretch& stretch, const RunPlan& plan, Stage::Unit unit, i128 amount) {
  const auto is_reached = [&](const Position& at) { return counted(stretch, plan, unit, at) >= amount; };
  if (is_reached(stretch.begin)) return stretch.begin;
  std::int64_t before = stretch.begin.step;  // not reached there
  std::int64_t behind = before;              // reached there, or past the end
  for (std::int64_t ahead = 1; behind == before; ahead *= 2) {
    if (ahead > kMaxCount - before) return std::nullopt;
    const auto at = stretch.start_of(before + ahead);
    if (!at || is_reached(*at))
      behind = before + ahead;
    else
      before = behind = before + ahead;
  }
  while (behind - before > 1) {
    const std::int64_t middle = before + (behind - before) / 2;
    const auto at = stretch.start_of(middle);
    (!at || is_reached(*at) ? behind : before) = middle;
  }
  if (const auto at = stretch.start_of(behind)) return at;
  GlobalBatch last;
  const auto at = stretch.start_of(before);
  const bool has_end =
      at && ask(stretch, [&](const auto& of) { return of.batch(*at, stretch.batch_size, last); });
  return has_end && is_reached(last.next) ? std::optional(last.next) : std::nullopt;
}

std::vector<double> shares_of(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<double> of_samples(std::vector<double> weights, const RunPlan& plan) {
  for (std::size_t d = 0; d < weights.size() && plan.are_weights_of_tokens; ++d)
    weights[d] /= static_cast<double>(in_thousandths(plan.tokens_per_sample[d]));
  return weights;
}

bool is_before(const Position& a, const Position& b) { return a.step < b.step; }

std::vector<SampleId> with_more(const std::vector<SampleId>& samples, std::span<const SampleId> more) {
  std::vector<SampleId> all;
  std::ranges::set_union(samples, more, std::back_inserter(all));
  return all;
}

}  // namespace

const MixtureState* Stretch::mixture() const noexcept {
  const auto* mixed = std::get_if<MixtureSteps>(steps.get());
  return mixed == nullptr ? nullptr : &mixed->turns().state();
}

std::optional<Position> Stretch::start_of(std::int64_t step) const {
  return ask(*this, [&](const auto& of) { return of.start_of(begin, batch_size, step); });
}

bool Stretch::lead(const Position& at) const {
  return ask(*this, [&](const auto& of) { return of.lead(begin, batch_size, at); });
}

bool operator==(const Stretch& a, const Stretch& b) {
  const auto same = [](const auto& one, const auto& other) {
    return one == other || (one && other && *one == *other);
  };
  return a.begin == b.begin && a.batch_size == b.batch_size && same(a.steps, b.steps) &&
         same(a.left_out, b.left_out);
}

std::string digest_of_plan(const RunPlan& plan) {
  return to_string(FingerprintBuilder().add(to_string(plan)).finish());
}

struct RunPath::Turning {
  Stage::Unit unit;
  i128 amount;  ///< of tokens in thousandths
  std::int64_t batch_size = 0;
  std::optional<WeightedTurns> weights = {};  ///< with their period, which all that have them share
  std::span<const SampleId> leave_out = {};   ///< of the plan
};

namespace {

WeightedTurns turns_of(std::vector<std::int64_t> weights) {
  const std::size_t datasets = weights.size();
  return WeightedTurns({.weights = std::move(weights), .counts = std::vector<std::int64_t>(datasets)});
}

}  // namespace

// In order of stages.
RunPath::Turnings RunPath::turnings() const {
  std::vector<Turning> all;
  for (std::size_t s = 0; s < plan_->stages.size(); ++s) {
    const Stage& stage = plan_->stages[s];
    const i128 scale = stage.unit == Stage::Unit::tokens ? kThousand : 1;
    const i128 begin = stage.begin * scale;
    if (stage.toward.empty()) {
      all.push_back({stage.unit, begin, stage.global_batch_size});
      if (!stage.weights.empty()) all.back().weights = turns_of(quantise(of_samples(stage.weights, *plan_)));
      all.back().leave_out = stage.leave_out;
      continue;
    }
    const i128 distance = plan_->stages[s + 1].begin * scale - begin;
    for (std::int64_t jump = 0; jump < kJumps; ++jump) {
      const double part = (static_cast<double>(jump) + 0.5) / kJumps;
      std::vector<double> weights = shares_of(stage.weights);
      const std::vector<double> toward = shares_of(stage.toward);
      for (std::size_t d = 0; d < weights.size(); ++d) weights[d] += (toward[d] - weights[d]) * part;
      all.push_back({stage.unit, begin + distance * jump / kJumps, jump == 0 ? stage.global_batch_size : 0,
                     turns_of(quantise_roughly(of_samples(std::move(weights), *plan_))), stage.leave_out});
    }
    if (plan_->stages[s + 1].weights.empty())
      all.push_back({stage.unit, begin + distance, 0, turns_of(quantise(of_samples(stage.toward, *plan_)))});
  }
  return std::make_shared<const std::vector<Turning>>(std::move(all));
}

RunPath::RunPath(Stretch first, bool takes_stages, std::shared_ptr<const RunPlan> plan,
                 std::vector<ChangeByHand> changes)
    : first_(std::move(first)),
      takes_stages_(takes_stages),
      plan_(std::move(plan)),
      changes_(std::move(changes)),
      stretches_{first_} {
  const MixtureState* const mixture = first_.mixture();
  plan_->validate(mixture == nullptr ? 0 : mixture->weights.size());
  check_left_out();
  turnings_ = turnings();
  grow(takes_stages_, changes_);
}

// They are there, and not all of any dataset.
void RunPath::check_left_out() const {
  std::vector<std::int64_t> sizes;
  if (const auto* mixed = std::get_if<MixtureSteps>(first_.steps.get()))
    sizes = mixed->lengths();
  else
    sizes = {std::get<Steps>(*first_.steps).samples()};
  std::vector<SampleId> all;
  for (const Stage& stage : plan_->stages) all = with_more(all, stage.leave_out);
  const auto behind = [&](std::int64_t id) { return std::ranges::lower_bound(all, SampleId{id}); };
  std::int64_t first = 0;
  for (std::size_t d = 0; d < sizes.size() && !all.empty(); ++d) {
    if (behind(first + sizes[d]) - behind(first) == sizes[d] && sizes[d] > 0) {
      throw failure(ErrorCode::invalid_argument,
                    "plan a run: leave_out has all {} samples of dataset {}; give it weight 0", sizes[d], d);
    }
    first += sizes[d];
  }
  if (behind(first) == all.end()) return;
  throw failure(ErrorCode::invalid_argument,
                "plan a run: leave_out has sample {}; there are {}, and ids begin with 0", all.back().value,
                first);
}

// By a batch size and weights, unless these are 0 and null, and without more samples, from there on.
void RunPath::go_on(const Position& at, std::int64_t batch_size, const WeightedTurns* weights,
                    std::span<const SampleId> leave_out) {
  Stretch next = stretches_.back();
  if (!leave_out.empty())
    next.left_out = std::make_shared<const std::vector<SampleId>>(
        with_more(next.left_out ? *next.left_out : std::vector<SampleId>(), leave_out));
  if (batch_size != 0) next.batch_size = batch_size;
  if (weights != nullptr) {
    const auto& mixed = std::get<MixtureSteps>(*next.steps);
    next.steps = std::make_shared<const RunSteps>(mixed.with(weights->behind(mixed.turns(), at.consumed)));
  }
  next.begin = at;
  if (at.step == stretches_.back().begin.step) stretches_.pop_back();
  stretches_.push_back(std::move(next));
}

// What the plan and these changes add behind the last stretch, and, if `takes_stages`, at its begin; samples
// that have been left out by then are in any case. At one place the change counts, for who makes one knows
// what began there.
void RunPath::grow(bool takes_stages, std::span<const ChangeByHand> changes) {
  const Position from = stretches_.back().begin;
  auto change = changes.begin();
  const auto apply = [&](const Turning& turning, const Position& at) {
    const Stretch& last = stretches_.back();
    const bool has_weights = !turning.weights || turning.weights->state().weights == last.mixture()->weights;
    const bool has_size = turning.batch_size == 0 || turning.batch_size == last.batch_size;
    const auto gone = last.left_out ? std::span(*last.left_out) : std::span<const SampleId>();
    const auto more =
        std::ranges::includes(gone, turning.leave_out) ? std::span<const SampleId>() : turning.leave_out;
    if (has_weights && has_size && more.empty()) return;
    go_on(at, turning.batch_size, has_weights ? nullptr : &*turning.weights, more);
  };
  auto turning = turnings_->begin();
  for (; turning != turnings_->end() &&
         counted(stretches_.back(), *plan_, turning->unit, from) >= turning->amount;
       ++turning) {
    apply(takes_stages ? *turning
                       : Turning{.unit = turning->unit, .amount = 0, .leave_out = turning->leave_out},
          from);
  }
  Position last = from;  // where the last one began, which may have changed nothing
  while (turning != turnings_->end() || change != changes.end()) {
    auto planned = turning == turnings_->end()
                       ? std::nullopt
                       : first_at(stretches_.back(), *plan_, turning->unit, turning->amount);
    if (planned && planned->step < last.step) planned = last;
    if (change != changes.end() && (!planned || is_before(change->at, *planned))) {
      is_whole_ = is_whole_ && stretches_.back().lead(change->at);
      if (!is_whole_) return;
      take(*change++);
    } else if (planned) {
      last = *planned;
      apply(*turning++, last);
    } else {
      return;
    }
  }
}

void RunPath::take(const ChangeByHand& change) {
  const auto turns = change.weights.empty() ? std::nullopt : std::optional(turns_of(change.weights));
  go_on(change.at, change.batch_size, turns ? &*turns : nullptr);
}

const Stretch& RunPath::at(std::int64_t step) const noexcept {
  if (stretches_.size() == 1) return stretches_.front();
  const auto next =
      std::ranges::upper_bound(stretches_, step, {}, [](const Stretch& one) { return one.begin.step; });
  return next == stretches_.begin() ? stretches_.front() : *std::prev(next);
}

bool RunPath::is_skipped(std::int64_t step) const noexcept {
  const auto range = std::ranges::upper_bound(plan_->skip, step, {}, &StepRange::end);
  return range != plan_->skip.end() && range->begin <= step;
}

bool RunPath::batch(const Position& place, GlobalBatch& out) const {
  Position at = place;
  if (is_skipped(at.step)) {
    const auto behind = start_of(std::ranges::upper_bound(plan_->skip, at.step, {}, &StepRange::end)->end);
    if (!behind) return false;
    at = *behind;
  }
  const Stretch& stretch = this->at(at.step);
  return ask(stretch, [&](const auto& steps) { return steps.batch(at, stretch.batch_size, out); });
}

std::optional<Position> RunPath::start_of(std::int64_t step) const {
  const auto start = step < begin().step ? std::nullopt : at(step).start_of(step);
  return start && start->is_countable() && start->step < kMaxCount ? start : std::nullopt;
}

bool RunPath::lead(const Position& place) const {
  return place.step >= begin().step && at(place.step).lead(place);
}

std::int64_t RunPath::count() const {
  const Stretch& last = stretches_.back();
  return ask(last, [&](const auto& steps) { return steps.count(last.begin, last.batch_size); });
}

bool RunPath::has_begun(const Stage& stage, const Position& place) const {
  const i128 amount = i128{stage.begin} * (stage.unit == Stage::Unit::tokens ? kThousand : 1);
  return counted(at(place.step), *plan_, stage.unit, place) >= amount;
}

RunPath RunPath::with(ChangeByHand change) const {
  RunPath changed = *this;
  const std::int64_t step = change.at.step;
  std::erase_if(changed.changes_, [&](const ChangeByHand& one) { return one.at.step > step; });
  while (changed.stretches_.size() > 1 && changed.stretches_.back().begin.step > step)
    changed.stretches_.pop_back();
  const bool is_more = changed.changes_.empty() || changed.changes_.back().at.step != step;
  if (is_more && changed.changes_.size() >= kMostChanges) {
    const std::int64_t oldest = changed.changes_.front().at.step;
    changed.first_ = changed.at(oldest);
    changed.takes_stages_ = false;
    changed.changes_.erase(changed.changes_.begin());
    std::erase_if(changed.stretches_, [&](const Stretch& one) { return one.begin.step < oldest; });
  }
  changed.take(change);
  if (is_more) changed.changes_.push_back({.at = change.at});
  ChangeByHand& last = changed.changes_.back();
  if (change.batch_size != 0) last.batch_size = change.batch_size;
  if (!change.weights.empty()) last.weights = std::move(change.weights);
  changed.grow(false, {});  // what the plan has begun here is there, below the change
  return changed;
}

RunPath RunPath::with(std::shared_ptr<const RunPlan> plan) const {
  return {first_, takes_stages_, std::move(plan), changes_};
}

bool RunPath::is_same_until(const RunPath& other, const Position& at) const {
  const auto before = [&](const RunPath& path) {
    std::vector<Stretch> past;
    for (const Stretch& one : path.stretches_) {
      if (one.begin.step < at.step) past.push_back(one);
    }
    std::vector<StepRange> skipped;
    for (StepRange range : path.plan_->skip) {
      range.end = std::min(range.end, at.step);
      if (range.begin < range.end) skipped.push_back(range);
    }
    return std::pair(std::move(past), std::move(skipped));
  };
  return before(*this) == before(other);
}

bool RunPath::is_same_from(const RunPath& other, const Position& at) const {
  const auto behind = [&](const RunPath& path) {
    const Stretch& now = path.at(at.step);
    std::vector<Stretch> rest(path.stretches_.begin() + (&now - path.stretches_.data()),
                              path.stretches_.end());
    rest.front().begin = at;
    std::vector<StepRange> skipped;
    for (StepRange range : path.plan_->skip) {
      range.begin = std::max(range.begin, at.step);
      if (range.begin < range.end) skipped.push_back(range);
    }
    return std::pair(std::move(rest), std::move(skipped));
  };
  return this == &other || behind(*this) == behind(other);
}

}  // namespace rota::internal
