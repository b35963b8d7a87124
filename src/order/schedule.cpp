#include "order/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

__extension__ using i128 = __int128;

}  // namespace

void EpochGroups::enter(const Order& order, std::int64_t epoch) {
  if (epoch == epoch_) return;
  begins_.reserve(static_cast<std::size_t>(order.plan().groups()) + 1);  // nothing fails from here on
  epoch_ = epoch;
  order_ = order.groups(epoch);
  const ShardPlan& plan = order.plan();
  begins_.clear();
  begins_.push_back(0);
  for (std::int64_t k = 0; k < plan.groups(); ++k) {
    begins_.push_back(begins_.back() + plan.group_samples(group(k)));
  }
}

std::int64_t EpochGroups::place_at(std::int64_t turn) const {
  return std::upper_bound(begins_.begin(), begins_.end() - 1, turn) - begins_.begin() - 1;
}

Schedule::Schedule(Order order, Tail tail, std::int64_t epochs)
    : order_(std::move(order)),
      tail_(tail),
      epochs_(epochs),
      turns_(plan().is_equal() ? Turns(EqualTurns(plan())) : RaggedTurns(plan())) {}

void Schedule::require(const Position& at) const {
  if (at.is_countable() && at.consumed <= plan().samples()) return;
  throw failure(
      ErrorCode::out_of_range,
      "go to epoch {}, sample {}, step {}: an epoch has {} samples; epochs and steps go from 0 to 2^62",
      at.epoch, at.consumed, at.step, plan().samples());
}

bool Schedule::batch(const Position& at, std::int64_t size, GlobalBatch& out) const {
  assert(size >= 1 && size <= kMaxBatchSize);
  require(at);
  const std::int64_t samples = plan().samples();
  if (samples == 0 || (tail_ == Tail::drop && size > samples)) return false;

  Position p = at;
  const auto finish_epoch = [&] {
    ++p.epoch;
    p.consumed = 0;
  };
  const auto is_over = [&] {
    return tail_ == Tail::drop ? samples - p.consumed < size : p.consumed == samples;
  };
  if (is_over()) finish_epoch();
  if (p.epoch >= epochs_) return false;

  out.start = p;
  out.turn_ranges.clear();
  std::int64_t left = size;
  do {
    const std::int64_t take = std::min(left, samples - p.consumed);
    out.turn_ranges.push_back({p.epoch, p.consumed, p.consumed + take, SlotKind::sample});
    left -= take;
    p.consumed += take;
    if (is_over()) finish_epoch();
  } while (tail_ == Tail::carry && left > 0 && p.epoch < epochs_);
  out.real = size - left;
  if (tail_ == Tail::pad && left > 0) {
    out.turn_ranges.push_back({out.start.epoch, 0, left, SlotKind::pad});
    left = 0;
  }
  out.size = size - left;
  ++p.step;
  out.next = p;
  return true;
}

// Slots [begin, end) of `range`. Groups are consumed one after the other, so slot i of it lies in the group
// that takes turn range.begin + i; only inside a group does the order of slots differ from that of turns.
void Schedule::append(const TurnRange& range, std::int64_t begin, std::int64_t end,
                      std::vector<ShardSpan>& out) {
  groups_.enter(order_, range.epoch);
  const ShardSpan span{.epoch = range.epoch, .kind = range.kind, .dataset = range.dataset};
  for (std::int64_t at = range.begin + begin, last = range.begin + end; at < last;) {
    const std::int64_t place = groups_.place_at(at);
    const std::int64_t group_begin = groups_.begin(place);
    const std::int64_t from = std::max(range.begin, group_begin);
    const std::int64_t to = std::min(range.end, groups_.begin(place + 1));
    const std::int64_t count = std::min(last, to) - at;
    const auto load = [&](auto& turns) {
      turns.load(groups_.group(place), from - group_begin, to - group_begin);
    };
    std::visit(load, turns_);
    append_spans(turns_, span, at - from, count, out);
    at += count;
  }
}

void Schedule::slice(std::span<Schedule> datasets, const GlobalBatch& batch, std::int64_t begin,
                     std::int64_t end, std::vector<ShardSpan>& out) {
  out.clear();
  std::int64_t before = 0;  // slots of the turn_ranges before this one
  for (const TurnRange& range : batch.turn_ranges) {
    Schedule& schedule = datasets[static_cast<std::size_t>(range.dataset)];
    const std::int64_t samples = schedule.plan().samples();
    // Padding may go through the epoch's turns more than once.
    for (std::int64_t turn = range.begin; turn < range.end && before < end;) {
      const std::int64_t cycle = turn / samples * samples;
      const std::int64_t stop = std::min(range.end, cycle + samples);
      const std::int64_t from = std::max<std::int64_t>(begin - before, 0);
      const std::int64_t to = std::min(end - before, stop - turn);
      TurnRange part = range;
      part.begin = turn - cycle;
      part.end = stop - cycle;
      if (from < to) schedule.append(part, from, to, out);
      before += stop - turn;
      turn = stop;
    }
  }
}

void Schedule::cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out) {
  require(at);
  if (first < 0 || first > plan().shards() - std::ssize(out) / 2) {
    throw failure(ErrorCode::out_of_range, "work out cursors of {} shards from {} on: there are {}",
                  out.size() / 2, first, plan().shards());
  }
  groups_.enter(order_, at.epoch);
  const std::int64_t place = groups_.place_at(at.consumed);
  const std::int64_t turns_in_group = at.consumed - groups_.begin(place);
  const Frontier frontier = std::visit(
      [&](auto& turns) {
        turns.load(groups_.group(place), turns_in_group, turns_in_group);
        return turns.begin();
      },
      turns_);
  std::int64_t group = -1;
  std::int64_t group_place = 0;
  std::int64_t begin = plan().begin(first);
  for (std::size_t i = 0; i < out.size() / 2; ++i) {
    const std::int64_t shard = first + static_cast<std::int64_t>(i);
    if (shard / plan().interleave() != group) {
      group = shard / plan().interleave();
      group_place = groups_.place(group);
    }
    const std::int64_t end = plan().begin(shard + 1);
    const std::int64_t length = end - begin;
    begin = end;
    out[2 * i] = at.epoch;
    out[2 * i + 1] = group_place < place ? length : group_place > place ? 0 : frontier.cursor(shard, length);
  }
}

Turn Schedule::turn(std::int64_t epoch, SampleId id) {
  assert(id.value >= 0 && id.value < plan().samples() && epoch >= 0);
  groups_.enter(order_, epoch);
  const ShardPosition found = order_.epoch(epoch).locate(id);
  const std::int64_t group = found.shard.value / plan().interleave();
  std::int64_t before = groups_.begin(groups_.place(group));
  for (std::int64_t s = plan().group_first(group); s < plan().group_last(group); ++s) {
    const std::int64_t length = plan().length(s);
    before += std::min(length, found.position) + (s < found.shard.value && length > found.position ? 1 : 0);
  }
  return {epoch, before};
}

std::int64_t Schedule::steps(std::int64_t left, std::int64_t size) const noexcept {
  return left / size + (tail_ != Tail::drop && left % size != 0 ? 1 : 0);
}

std::optional<Position> Schedule::find_ahead(const Position& at, std::int64_t size, const Turn& turn) const {
  const std::int64_t samples = plan().samples();
  const i128 epochs = i128{turn.epoch} - at.epoch;
  i128 before = 0;  // steps before the batch
  Position start;
  if (tail_ == Tail::carry) {
    before = (epochs * samples + turn.consumed - at.consumed) / size;
    const i128 turns = at.consumed + before * size;  // from the beginning of epoch at.epoch on
    start.epoch = at.epoch + static_cast<std::int64_t>(turns / samples);
    start.consumed = static_cast<std::int64_t>(turns % samples);
  } else {
    const std::int64_t first = epochs == 0 ? at.consumed : 0;
    const std::int64_t step = (turn.consumed - first) / size;
    if (step >= steps(samples - first, size)) return std::nullopt;
    before =
        step + (epochs == 0 ? 0 : steps(samples - at.consumed, size) + (epochs - 1) * steps(samples, size));
    start.epoch = turn.epoch;
    start.consumed = first + step * size;
  }
  if (at.step + before > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  start.step = static_cast<std::int64_t>(at.step + before);
  return start;
}

// Do batches of `size` from the beginning of the run on lead to `at`?
bool Schedule::leads_to(const Position& at, std::int64_t size) const {
  const std::int64_t samples = plan().samples();
  if (tail_ == Tail::carry) {
    const i128 turns = i128{at.epoch} * samples + at.consumed;
    const bool is_cut = turns % size != 0;  // as the last batch of the run is
    return at.step == turns / size + (is_cut ? 1 : 0) && (!is_cut || at.epoch >= epochs_);
  }
  return at.consumed % size == 0 && at.step == i128{at.epoch} * steps(samples, size) + at.consumed / size;
}

std::optional<Position> Schedule::find(const Position& at, std::int64_t size, const Turn& turn) const {
  require(at);
  if (plan().samples() == 0 || turn.epoch >= epochs_) return std::nullopt;
  if (std::pair(turn.epoch, turn.consumed) >= std::pair(at.epoch, at.consumed)) {
    return find_ahead(at, size, turn);
  }
  if (leads_to(at, size)) return find_ahead({}, size, turn);
  refuse_past(fmt::format("find the batch of the sample at place {} of epoch {}", turn.consumed, turn.epoch),
              at, size);
}

std::optional<Position> Schedule::start_of(const Position& at, std::int64_t size, std::int64_t step) const {
  require(at);
  if (step < 0) {
    throw failure(ErrorCode::out_of_range, "find step {}: steps begin with 0", step);
  }
  const bool is_past = step < at.step;
  if (is_past && !leads_to(at, size)) refuse_past(fmt::format("find step {}", step), at, size);
  const Position from = is_past ? Position() : at;
  const std::int64_t samples = plan().samples();
  const std::int64_t each = steps(samples, size);
  if (each == 0) return std::nullopt;
  i128 epoch = from.epoch;
  i128 ahead = step - from.step;
  if (tail_ == Tail::carry) {
    ahead = from.consumed + ahead * size;  // turns from the beginning of epoch from.epoch on
    epoch += ahead / samples;
    ahead %= samples;
  } else if (const std::int64_t first = steps(samples - from.consumed, size); ahead < first) {
    ahead = from.consumed + ahead * size;
  } else {
    epoch += 1 + (ahead - first) / each;
    ahead = (ahead - first) % each * size;
  }
  if (epoch >= epochs_) return std::nullopt;
  return Position{static_cast<std::int64_t>(epoch), static_cast<std::int64_t>(ahead), step};
}

void Schedule::refuse_past(const std::string& what, const Position& at, std::int64_t size) {
  throw failure(ErrorCode::unsupported,
                "{}: it came before epoch {}, sample {}, step {}, where batches of {} do not lead, and what "
                "they were is not known; ask where the run was then",
                what, at.epoch, at.consumed, at.step, size);
}

}  // namespace rota::internal
