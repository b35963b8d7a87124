#include "order/schedule.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace rota::internal {
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

Schedule::Schedule(Order order)
    : order_(std::move(order)), turns_(plan().is_equal() ? Turns(EqualTurns(plan())) : RaggedTurns(plan())) {}

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
  if (plan().is_equal()) {
    const std::int64_t first = plan().group_first(group);
    const std::int64_t shards = plan().group_last(group) - first;
    const std::int64_t round = found.position;  // the last one has only the longer shards
    const std::int64_t in_round = round < plan().short_length()
                                      ? found.shard.value - first
                                      : plan().long_before(found.shard.value) - plan().long_before(first);
    return {epoch, before + round * shards + in_round};
  }
  for (std::int64_t s = plan().group_first(group); s < plan().group_last(group); ++s) {
    const std::int64_t length = plan().length(s);
    before += std::min(length, found.position) + (s < found.shard.value && length > found.position ? 1 : 0);
  }
  return {epoch, before};
}

// Of a round it takes the samples of the shards that are over by then, the rounds before it of those that are
// not, and of these the ones below the shard.
std::vector<Turn> Schedule::turns(std::int64_t epoch, std::span<const SampleId> ids) {
  std::vector<Turn> turns;
  turns.reserve(ids.size());
  if (plan().is_equal()) {
    for (const SampleId id : ids) turns.push_back(turn(epoch, id));
    return turns;
  }
  groups_.enter(order_, epoch);
  const EpochOrder order = order_.epoch(epoch);
  std::vector<std::array<std::int64_t, 3>> places;  // group, position, shard
  for (const SampleId id : ids) {
    const ShardPosition found = order.locate(id);
    places.push_back({found.shard.value / plan().interleave(), found.position, found.shard.value});
  }
  std::ranges::sort(places);
  AliveSet alive;
  std::int64_t loaded = -1;
  std::int64_t over = 0;  // shards
  std::int64_t over_samples = 0;
  for (const auto& [group, position, shard] : places) {
    const std::int64_t first = plan().group_first(group);
    const auto by_length = plan().by_length(group);
    if (std::exchange(loaded, group) != group) {
      alive.assign(std::ssize(by_length), [](std::int64_t /*offset*/) { return true; });
      over = over_samples = 0;
    }
    for (; over < std::ssize(by_length); ++over) {
      const std::int64_t offset = by_length[static_cast<std::size_t>(over)];
      if (plan().length(first + offset) > position) break;
      over_samples += plan().length(first + offset);
      alive.remove(offset);
    }
    turns.push_back({epoch, groups_.begin(groups_.place(group)) + over_samples +
                                (std::ssize(by_length) - over) * position + alive.rank(shard - first)});
  }
  return turns;
}

}  // namespace rota::internal
