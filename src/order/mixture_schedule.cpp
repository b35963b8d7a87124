#include "order/mixture_schedule.hpp"

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

std::int64_t samples_of_run(const std::vector<Order>& orders, const MixtureRules& rules,
                            const WeightedTurns& turns) {
  if (rules.end == MixtureEnd::steps) return kNever;
  const bool is_first = rules.end == MixtureEnd::first_exhausted;
  std::int64_t samples = is_first ? kNever : 0;
  for (std::size_t d = 0; d < orders.size(); ++d) {
    if (turns.state().weights[d] == 0) continue;
    const std::int64_t end = turns.reach(d, turns_of(rules.passes, orders[d].plan().samples()));
    samples = is_first ? std::min(samples, end) : std::max(samples, end);
  }
  return samples;
}

}  // namespace

MixtureSchedule::MixtureSchedule(const std::vector<Order>& orders, const MixtureRules& rules,
                                 WeightedTurns turns)
    : rules_(rules), turns_(std::move(turns)), samples_(samples_of_run(orders, rules, turns_)) {
  for (const Order& order : orders) schedules_.emplace_back(order, Tail::carry, kNever);
}

void MixtureSchedule::require(const Position& at) const {
  if (at.is_countable() && at.epoch == 0 && at.consumed >= turns_.state().changed_at) return;
  throw failure(ErrorCode::out_of_range,
                "go to epoch {}, sample {}, step {} of a mixture: it stays in epoch 0, and its weights were "
                "set at sample {}; before that, go there with the state of then; steps go from 0 to 2^62",
                at.epoch, at.consumed, at.step, turns_.state().changed_at);
}

// What each dataset has of turns [begin, end) of the run, cut where its epochs end.
void MixtureSchedule::append(std::int64_t begin, std::int64_t end, SlotKind kind,
                             std::vector<TurnRange>& out) const {
  for (std::size_t d = 0; d < schedules_.size(); ++d) {
    const std::int64_t last = turns_.count(d, end);
    for (std::int64_t turn = turns_.count(d, begin); turn < last;) {
      const std::int64_t epoch = turn / length(d);
      const std::int64_t from = turn % length(d);
      const std::int64_t count = std::min(last - turn, length(d) - from);
      out.push_back({.epoch = epoch,
                     .begin = from,
                     .end = from + count,
                     .kind = kind,
                     .dataset = static_cast<std::int32_t>(d)});
      turn += count;
    }
  }
}

bool MixtureSchedule::batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const {
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
  return true;
}

void MixtureSchedule::cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out) {
  require(at);
  const std::int64_t count = std::ssize(out) / 2;
  const std::int64_t each = schedules_.front().order().plan().shards();  // of a dataset
  const std::int64_t all = each * std::ssize(schedules_);
  if (first < 0 || first > all - count) {
    throw failure(ErrorCode::out_of_range, "work out cursors of {} shards from {} on: there are {}", count,
                  first, all);
  }
  for (std::int64_t done = 0; done < count;) {
    const auto d = static_cast<std::size_t>((first + done) / each);
    const std::int64_t from = (first + done) % each;
    const std::int64_t some = std::min(each - from, count - done);
    const std::int64_t turns = turns_.count(d, at.consumed);
    const Position place{.epoch = turns / length(d), .consumed = turns % length(d)};
    schedules_[d].cursors(
        place, from, out.subspan(static_cast<std::size_t>(2 * done), static_cast<std::size_t>(2 * some)));
    done += some;
  }
}

std::optional<Position> MixtureSchedule::find(const Position& at, std::int64_t batch_size,
                                              std::size_t dataset, std::int64_t epoch, SampleId id) {
  require(at);
  const std::int64_t in_epoch = schedules_[dataset].turn(epoch, id).consumed;
  if (epoch > (kNever - in_epoch - 1) / length(dataset)) return std::nullopt;
  const std::int64_t count = epoch * length(dataset) + in_epoch + 1;  // with this turn
  const bool is_known = count > turns_.state().counts[dataset];
  const std::int64_t taken = turns_.reach(dataset, count);
  if (is_known && (taken == kNever || taken > samples_)) return std::nullopt;
  const std::int64_t turn = taken - 1;  // of the run
  const bool is_ahead = is_known && turn >= at.consumed;
  const bool is_cut = at.consumed % batch_size != 0;  // as the last batch of the run is
  const bool leads_here =
      at.step == at.consumed / batch_size + (is_cut ? 1 : 0) && (!is_cut || at.consumed == samples_);
  const Position from = is_ahead ? at : Position{};
  const std::int64_t steps = (turn - from.consumed) / batch_size;
  const std::int64_t consumed = from.consumed + steps * batch_size;
  if (!is_ahead && (!is_known || !leads_here || consumed < turns_.state().changed_at)) {
    throw failure(ErrorCode::unsupported,
                  "find the batch of sample {} of dataset {} in its epoch {}: it came before sample {} of "
                  "the run, step {}, where batches of {} and these weights, set at sample {}, do not lead, "
                  "and what they were is not known; ask where the run was then",
                  id.value, dataset, epoch, at.consumed, at.step, batch_size, turns_.state().changed_at);
  }
  if (steps > kNever - from.step) return std::nullopt;
  return Position{.epoch = 0, .consumed = consumed, .step = from.step + steps};
}

}  // namespace rota::internal
