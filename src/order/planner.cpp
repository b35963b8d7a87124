#include "order/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

// The inverse of Planner::take and take_some.
int rank_of(std::int64_t slot, std::int64_t slots, ShardId shard, int ranks, Split split) noexcept {
  if (split == Split::by_shard) return static_cast<int>(shard.value % ranks);
  if (split == Split::interleaved) return static_cast<int>(slot % ranks);
  return static_cast<int>((i128{slot + 1} * ranks - 1) / slots);  // the last whose slice begins there
}

[[noreturn]] void refuse_past(SampleId id, std::int64_t epoch, const Run& run) {
  throw failure(ErrorCode::unsupported, "find the batch of sample {} in epoch {}: {}", id.value, epoch,
                RunAccess::past(run));
}

}  // namespace

Planner::Planner(std::shared_ptr<const RunOrder> order)
    : order_(std::move(order)), epochs_(order_->orders.size()), gone_(order_->orders.size()) {
  schedules_.reserve(order_->orders.size());
  for (const Order& of_dataset : order_->orders) schedules_.emplace_back(of_dataset);
}

bool Planner::plan(const Run& run, World world, Split split, const Balance& balance, RunSlice& out) {
  check(split, balance, order_->firsts.back());
  if (!RunAccess::batch(run, batch_)) return false;
  out.start = batch_.start;
  out.end = batch_.next;
  out.global_size = batch_.size;
  left_out_ = out.is_again() ? nullptr : RunAccess::path(run).at(batch_.start.step).left_out;
  out.global_real = batch_.real - count_left_out();
  out.left_again = std::ssize(RunAccess::open(run)) - (out.is_again() ? batch_.real : 0);
  out.micro_ends.clear();
  out.global_sums.clear();
  out.costs = {};
  if (split == Split::balanced) {
    take_in_balance(world, balance, out);
    return true;
  }
  split == Split::by_sample ? take(world, out) : take_some(world, split, out);
  name(spans_, out);
  return true;
}

// The samples of `spans`, by slot.
void Planner::name(std::span<const ShardSpan> spans, RunSlice& out) {
  std::size_t slot = 0;
  for (const ShardSpan& span : spans) slot += static_cast<std::size_t>(span.count);
  out.ids.resize(slot);
  out.kinds.resize(slot);
  out.epochs.resize(slot);
  out.datasets.resize(slot);
  slot = 0;
  for (auto first = spans.begin(); first != spans.end();) {
    const auto last = std::find_if(first, spans.end(), [&](const ShardSpan& span) {
      return span.epoch != first->epoch || span.dataset != first->dataset;
    });
    const auto d = static_cast<std::size_t>(first->dataset);
    std::optional<EpochOrder>& order = epochs_[d];
    if (!order || order->epoch() != first->epoch) order = order_->orders[d].epoch(first->epoch);
    SampleId* const ids = out.ids.data();  // whatever is written to one list, the others stay where they are
    SlotKind* const kinds = out.kinds.data();
    std::int64_t* const epochs = out.epochs.data();
    std::int32_t* const datasets = out.datasets.data();
    order->samples(std::span(first, last), ids + slot);
    const ShardSpan of = *first;
    const std::int64_t begin = order_->firsts[d];
    for (; first != last; ++first) {
      const SlotKind kind = first->kind;
      for (const std::size_t end = slot + static_cast<std::size_t>(first->count); slot < end; ++slot) {
        ids[slot].value += begin;
        kinds[slot] = kind;
        epochs[slot] = of.epoch;
        datasets[slot] = of.dataset;
      }
    }
  }
  if (left_out_) leave_out(out);
}

// A batch is not filled up with what is left out.
void Planner::leave_out(RunSlice& out) const {
  for (std::size_t slot = 0; slot < out.ids.size(); ++slot) {
    if (!std::ranges::binary_search(*left_out_, out.ids[slot])) continue;
    if (out.kinds[slot] == SlotKind::sample)
      out.kinds[slot] = SlotKind::skipped;
    else
      out.ids[slot] = order_->instead_of(out.ids[slot], *left_out_);
  }
}

// Of the batch at hand, by all ranks: by the turns of what is left out, which are known for an epoch.
std::int64_t Planner::count_left_out() {
  std::int64_t count = 0;
  for (const TurnRange& range : batch_.turn_ranges) {
    if (!left_out_ || range.kind != SlotKind::sample) continue;
    const auto d = static_cast<std::size_t>(range.dataset);
    Gone& gone = gone_[d];
    if (gone.of != left_out_ || gone.epoch != range.epoch) {
      std::vector<SampleId> own;
      for (const SampleId id : *left_out_)
        if (id.value >= order_->firsts[d] && id.value < order_->firsts[d + 1])
          own.push_back({id.value - order_->firsts[d]});
      gone = {left_out_, range.epoch};
      for (const Turn& turn : schedules_[d].turns(range.epoch, own)) gone.turns.push_back(turn.consumed);
      std::ranges::sort(gone.turns);
    }
    count +=
        std::ranges::lower_bound(gone.turns, range.end) - std::ranges::lower_bound(gone.turns, range.begin);
  }
  return count;
}

// A rank's consecutive slice.
void Planner::take(World world, RunSlice& out) {
  const std::int64_t begin = share(batch_.size, world.rank, world.size);
  const std::int64_t end = share(batch_.size, world.rank + 1, world.size);
  Schedule::slice(schedules_, batch_, begin, end, spans_);
  out.slots.resize(static_cast<std::size_t>(end - begin));
  std::iota(out.slots.begin(), out.slots.end(), begin);
}

// What the whole batch has of a rank's shards; or every R-th slot of it, from that of the rank's number on.
// O(shards in the batch, slots of this rank).
void Planner::take_some(World world, Split split, RunSlice& out) {
  Schedule::slice(schedules_, batch_, 0, batch_.size, all_);
  spans_.clear();
  out.slots.clear();
  std::int64_t begin = 0;          // of the span at hand
  std::int64_t next = world.rank;  // slot of this rank, where they take turns
  for (const ShardSpan& span : all_) {
    const std::int64_t end = begin + span.count;
    if (split == Split::by_shard && span.shard.value % world.size == world.rank) {
      spans_.push_back(span);
      for (std::int64_t slot = begin; slot < end; ++slot) out.slots.push_back(slot);
    }
    for (; split == Split::interleaved && next < end; next += world.size) {
      ShardSpan& own = spans_.emplace_back(span);
      own.position += next - begin;
      own.count = 1;
      out.slots.push_back(next);
    }
    begin = end;
  }
}

// The whole batch at hand, and who has which slot of it.
void Planner::deal(int ranks, const Balance& balance) {
  Schedule::slice(schedules_, batch_, 0, batch_.size, all_);
  name(all_, whole_);
  whole_.start = batch_.start;
  balanced_.deal(balance, whole_, ranks);
}

void Planner::take_in_balance(World world, const Balance& balance, RunSlice& out) {
  deal(world.size, balance);
  balanced_.take(world.rank, whole_, out);
  const auto pick = [&](const auto& from, auto& to) {
    to.resize(out.slots.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[static_cast<std::size_t>(out.slots[i])];
  };
  pick(whole_.ids, out.ids);
  pick(whole_.kinds, out.kinds);
  pick(whole_.epochs, out.epochs);
  pick(whole_.datasets, out.datasets);
  begins_.clear();
  for (std::int64_t begin = 0; const ShardSpan& span : all_)
    begins_.push_back(std::exchange(begin, begin + span.count));
  spans_.clear();
  for (const std::int64_t slot : out.slots) {
    const auto next = std::ranges::upper_bound(begins_, slot);
    const auto s = static_cast<std::size_t>(next - begins_.begin()) - 1;
    ShardSpan& own = spans_.emplace_back(all_[s]);
    own.position += slot - begins_[s];
    own.count = 1;
  }
}

// Where its batch begins, skipped ones included.
std::optional<Position> Planner::find(const Run& run, std::size_t dataset, std::int64_t epoch, SampleId id) {
  const Turn turn = schedules_[dataset].turn(epoch, {id.value - order_->firsts[dataset]});
  const std::vector<Stretch>& all = RunAccess::path(run).stretches();
  const auto has_turn = [&](const Stretch& one) {  // or one behind it
    if (const auto* mixed = std::get_if<MixtureSteps>(one.steps.get())) {
      const auto before = mixed->turns_before(dataset, turn);
      return before && *before >= one.begin.consumed;
    }
    return std::pair(turn.epoch, turn.consumed) >= std::pair(one.begin.epoch, one.begin.consumed);
  };
  const auto next = std::ranges::partition_point(all, has_turn);
  if (next == all.begin()) refuse_past(id, epoch, run);
  const Stretch& in = *std::prev(next);
  if (const auto* steps = std::get_if<Steps>(in.steps.get()))
    return steps->find(in.begin, in.batch_size, turn);
  const auto& mixed = std::get<MixtureSteps>(*in.steps);
  const std::int64_t before = mixed.turns_before(dataset, turn).value();
  return before == WeightedTurns::kNever ? std::nullopt : mixed.find(in.begin, in.batch_size, before);
}

std::optional<BatchSlot> Planner::when(const Run& run, SampleId id, std::int64_t epoch, int ranks,
                                       Split split, const Balance& balance) {
  const std::int64_t samples = order_->firsts.back();
  if (id.value < 0 || id.value >= samples || epoch < 0) {
    throw failure(ErrorCode::out_of_range,
                  "find the batch of sample {} in epoch {}: there are {}, and epochs begin with 0", id.value,
                  epoch, samples == 0 ? "no samples" : fmt::format("samples 0 to {}", samples - 1));
  }
  World{.size = ranks}.validate();
  check(split, balance, samples);
  const auto next = std::ranges::upper_bound(order_->firsts, id.value);
  const auto d = static_cast<std::size_t>(next - order_->firsts.begin()) - 1;
  const auto start = find(run, d, epoch, id);
  if (!start || !start->is_countable()) return std::nullopt;
  const Stretch& in = RunAccess::path(run).at(start->step);
  const bool is_there =
      std::visit([&](const auto& steps) { return steps.batch(*start, in.batch_size, batch_); }, *in.steps);
  if (!is_there) return std::nullopt;
  left_out_ = in.left_out;
  const bool is_skipped = RunAccess::path(run).is_skipped(start->step) ||
                          (left_out_ && std::ranges::binary_search(*left_out_, id));
  Schedule::slice(schedules_, batch_, 0, batch_.size, all_);
  const ShardPosition found = order_->orders[d].epoch(epoch).locate({id.value - order_->firsts[d]});
  std::int64_t slot = 0;
  for (const ShardSpan& span : all_) {
    const std::int64_t offset = found.position - span.position;
    if (span.kind == SlotKind::sample && static_cast<std::size_t>(span.dataset) == d && span.epoch == epoch &&
        span.shard == found.shard && offset >= 0 && offset < span.count) {
      slot += offset;
      if (split != Split::balanced)
        return BatchSlot{start->step, rank_of(slot, batch_.size, found.shard, ranks, split), slot,
                         is_skipped};
      deal(ranks, balance);
      return BatchSlot{start->step, balanced_.rank_of(static_cast<std::size_t>(slot)), slot, is_skipped};
    }
    slot += span.count;
  }
  return std::nullopt;  // only as padding
}

OpenTurns Planner::turns_of(std::span<const SampleId> ids, std::span<const std::int64_t> epochs) {
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<SampleId>> of;  // by dataset and epoch
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto d = static_cast<std::size_t>(std::ranges::upper_bound(order_->firsts, ids[i].value) -
                                            order_->firsts.begin() - 1);
    of[{d, epochs[i]}].push_back({ids[i].value - order_->firsts[d]});
  }
  OpenTurns turns;
  turns.reserve(ids.size());
  for (const auto& [where, own] : of) {
    for (const Turn& turn : schedules_[where.first].turns(where.second, own))
      turns.push_back({static_cast<std::int64_t>(where.first), turn.epoch, turn.consumed});
  }
  std::ranges::sort(turns);
  return turns;
}

void Planner::cursors(const Run& run, std::int64_t first, std::span<std::int64_t> out) {
  const std::int64_t count = std::ssize(out) / 2;
  const std::int64_t each = order_->orders.front().plan().shards();  // of a dataset
  const std::int64_t all = each * std::ssize(schedules_);
  if (first < 0 || first > all - count) {
    throw failure(ErrorCode::out_of_range, "work out cursors of {} shards from {} on: there are {}", count,
                  first, all);
  }
  const auto* mixture = std::get_if<MixtureSteps>(&RunAccess::steps(run));
  for (std::int64_t done = 0; done < count;) {
    const auto d = static_cast<std::size_t>((first + done) / each);
    const std::int64_t from = (first + done) % each;
    const std::int64_t some = std::min(each - from, count - done);
    const Position at = mixture != nullptr ? mixture->place(d, run.position()) : run.position();
    schedules_[d].cursors(
        at, from, out.subspan(static_cast<std::size_t>(2 * done), static_cast<std::size_t>(2 * some)));
    done += some;
  }
}

}  // namespace rota::internal
