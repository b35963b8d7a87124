#include "order/mixture_steps.hpp"

#include <algorithm>
#include <utility>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kNever = WeightedTurns::kNever;

// How many turns exhaust a dataset.
std::int64_t turns_of(std::int64_t passes, std::int64_t samples) {
  return passes > kNever / samples ? kNever : passes * samples;
}

}  // namespace

MixtureSteps::MixtureSteps(std::vector<std::int64_t> lengths, const MixtureRules& rules, WeightedTurns turns)
    : lengths_(std::move(lengths)), rules_(rules), turns_(std::move(turns)), samples_(samples_of_run()) {}

std::int64_t MixtureSteps::samples_of_run() const {
  if (rules_.end == MixtureEnd::steps) return kNever;
  const bool is_first = rules_.end == MixtureEnd::first_exhausted;
  std::int64_t samples = is_first ? kNever : 0;
  for (std::size_t d = 0; d < lengths_.size(); ++d) {
    if (turns_.state().weights[d] == 0) continue;
    const std::int64_t end = turns_.reach(d, turns_of(rules_.passes, lengths_[d]));
    samples = is_first ? std::min(samples, end) : std::max(samples, end);
  }
  return samples;
}

void MixtureSteps::require(const Position& at) const {
  if (at.is_countable() && at.epoch == 0 && at.consumed >= turns_.state().changed_at) return;
  throw failure(ErrorCode::out_of_range,
                "go to epoch {}, sample {}, step {} of a mixture: it stays in epoch 0, and its weights were "
                "set at sample {}; before that, go there with the state of then; steps go from 0 to 2^62",
                at.epoch, at.consumed, at.step, turns_.state().changed_at);
}

Position MixtureSteps::place(std::size_t d, const Position& at) const {
  const std::int64_t turns = turns_.count(d, at.consumed);
  return {.epoch = turns / lengths_[d], .consumed = turns % lengths_[d]};
}

// What each dataset has of turns [begin, end) of the run, cut where its epochs end.
void MixtureSteps::append(std::int64_t begin, std::int64_t end, SlotKind kind,
                          std::vector<TurnRange>& out) const {
  for (std::size_t d = 0; d < lengths_.size(); ++d) {
    const std::int64_t last = turns_.count(d, end);
    for (std::int64_t turn = turns_.count(d, begin); turn < last;) {
      const std::int64_t from = turn % lengths_[d];
      const std::int64_t count = std::min(last - turn, lengths_[d] - from);
      out.push_back({.epoch = turn / lengths_[d],
                     .begin = from,
                     .end = from + count,
                     .kind = kind,
                     .dataset = static_cast<std::int32_t>(d)});
      turn += count;
    }
  }
}

bool MixtureSteps::batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const {
  require(at);
  if (rules_.end == MixtureEnd::steps && at.step >= rules_.steps) return false;
  const std::int64_t left = samples_ - at.consumed;
  if (left <= 0 || (rules_.tail == Tail::drop && left < batch_size)) return false;
  out.real = std::min(left, batch_size);
  out.size = rules_.tail == Tail::pad ? batch_size : out.real;
  out.start = at;
  out.next = {.epoch = 0, .consumed = at.consumed + out.real, .step = at.step + 1};
  out.turn_ranges.clear();
  append(at.consumed, at.consumed + out.real, SlotKind::sample, out.turn_ranges);
  append(at.consumed + out.real, at.consumed + out.size, SlotKind::pad, out.turn_ranges);
  return out.next.is_countable();
}

std::int64_t MixtureSteps::count(const Position& /*from*/, std::int64_t /*batch_size*/) const {
  if (rules_.end == MixtureEnd::steps) return rules_.steps;
  throw failure(ErrorCode::unsupported,
                "count the steps of a run: datasets of a mixture have epochs of their own");
}

bool MixtureSteps::lead(const Position& from, std::int64_t batch_size, const Position& at) const {
  const std::int64_t turns = at.consumed - from.consumed;
  const bool is_cut = turns % batch_size != 0;  // as the last batch of the run is
  const bool is_past_end =
      at.consumed > samples_ || (rules_.end == MixtureEnd::steps && at.step > rules_.steps);
  return !is_past_end && at.epoch == 0 && turns >= 0 && from.consumed >= turns_.state().changed_at &&
         at.step - from.step == turns / batch_size + (is_cut ? 1 : 0) && (!is_cut || at.consumed == samples_);
}

std::optional<Position> MixtureSteps::start_of(const Position& from, std::int64_t batch_size,
                                               std::int64_t step) const {
  const std::int64_t left = samples_ - from.consumed;
  const std::int64_t steps = step - from.step;
  if (rules_.end == MixtureEnd::steps && step >= rules_.steps) return std::nullopt;
  const std::int64_t there =
      left / batch_size + (rules_.tail != Tail::drop && left % batch_size != 0 ? 1 : 0);
  if (left <= 0 || steps >= there) return std::nullopt;
  return Position{.epoch = 0, .consumed = from.consumed + steps * batch_size, .step = step};
}

std::optional<std::int64_t> MixtureSteps::turns_before(std::size_t dataset, const Turn& turn) const {
  const std::int64_t length = lengths_[dataset];
  if (turn.epoch > (kNever - turn.consumed - 1) / length) return kNever;
  const std::int64_t count = turn.epoch * length + turn.consumed + 1;  // with this one
  if (count <= turns_.state().counts[dataset]) return std::nullopt;
  const std::int64_t taken = turns_.reach(dataset, count);
  return taken == kNever || taken > samples_ ? kNever : taken - 1;
}

std::optional<Position> MixtureSteps::find(const Position& from, std::int64_t batch_size,
                                           std::int64_t turn) const {
  const std::int64_t steps = (turn - from.consumed) / batch_size;
  if (steps > kNever - from.step) return std::nullopt;
  return start_of(from, batch_size, from.step + steps);
}

}  // namespace rota::internal
