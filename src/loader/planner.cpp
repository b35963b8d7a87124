#include "loader/planner.hpp"

#include <algorithm>
#include <numeric>

#include "rota/types.hpp"

namespace rota::internal {
namespace {

AnySchedule make_schedule(const RunOrder& run_order, const LoaderOptions& options) {
  if (!run_order.mix_plan) return Schedule(run_order.orders.front(), options.tail, options.epochs);
  return MixtureSchedule(run_order.orders, run_order.mix_plan->rules, run_order.mix_plan->turns);
}

}  // namespace

Planner::Planner(const RunOrder& run_order, const LoaderOptions& options, World world)
    : schedule_(make_schedule(run_order, options)),
      run_order_(&run_order),
      epochs_(run_order.orders.size()),
      shards_(options.shards),
      global_batch_size_(options.global_batch_size),
      world_(world),
      rank_split_(options.rank_split),
      worker_split_(options.worker_split),
      workers_(std::max(options.workers, 1)) {}

bool Planner::plan(const Position& at, Slots& out) {
  const bool is_there = std::visit(
      [&](const auto& schedule) { return schedule.batch(at, global_batch_size_, out.global); }, schedule_);
  if (!is_there) return false;
  if (rank_split_ == Split::by_sample) take(out);
  if (rank_split_ == Split::by_shard) take_shards(out);
  if (rank_split_ == Split::interleaved) take_turns(out);
  const std::size_t count = out.slots.size();
  out.ids.resize(count);
  out.kinds.resize(count);
  out.epochs.resize(count);
  out.datasets.resize(count);
  std::size_t slot = 0;
  for (auto first = spans_.cbegin(); first != spans_.cend();) {
    const auto last = std::find_if(first, spans_.cend(), [&](const ShardSpan& span) {
      return span.epoch != first->epoch || span.dataset != first->dataset;
    });
    const auto d = static_cast<std::size_t>(first->dataset);
    std::optional<EpochOrder>& order = epochs_[d];
    if (!order || order->epoch() != first->epoch) order = run_order_->orders[d].epoch(first->epoch);
    order->samples(std::span(first, last), out.ids.data() + slot);
    for (; first != last; ++first) {
      for (const std::size_t end = slot + static_cast<std::size_t>(first->count); slot < end; ++slot) {
        out.ids[slot].value += run_order_->firsts[d];
        out.kinds[slot] = first->kind;
        out.epochs[slot] = first->epoch;
        out.datasets[slot] = first->dataset;
      }
    }
  }
  deal(out);
  return true;
}

// This rank's consecutive slice.
void Planner::take(Slots& out) {
  const std::int64_t begin = share(out.global.size, world_.rank, world_.size);
  const std::int64_t end = share(out.global.size, world_.rank + 1, world_.size);
  std::visit([&](auto& schedule) { schedule.slice(out.global, begin, end, spans_); }, schedule_);
  out.slots.resize(static_cast<std::size_t>(end - begin));
  std::iota(out.slots.begin(), out.slots.end(), begin);
}

// What the whole batch has of this rank's shards. O(shards in the batch).
void Planner::take_shards(Slots& out) {
  std::visit([&](auto& schedule) { schedule.slice(out.global, 0, out.global.size, all_); }, schedule_);
  spans_.clear();
  out.slots.clear();
  std::int64_t slot = 0;
  for (const ShardSpan& span : all_) {
    if (span.shard.value % world_.size == world_.rank) {
      spans_.push_back(span);
      for (std::int64_t i = 0; i < span.count; ++i) out.slots.push_back(slot + i);
    }
    slot += span.count;
  }
}

// Every R-th slot of the whole batch, from that of this rank's number on. O(shards in the batch, slots
// of this rank).
void Planner::take_turns(Slots& out) {
  std::visit([&](auto& schedule) { schedule.slice(out.global, 0, out.global.size, all_); }, schedule_);
  spans_.clear();
  out.slots.clear();
  std::int64_t slot = world_.rank;
  std::int64_t begin = 0;  // of the span at hand
  for (const ShardSpan& span : all_) {
    for (; slot < begin + span.count; slot += world_.size) {
      ShardSpan& own = spans_.emplace_back(span);
      own.position += slot - begin;
      own.count = 1;
      out.slots.push_back(slot);
    }
    begin += span.count;
  }
}

void Planner::deal(Slots& out) const {
  out.parts.resize(static_cast<std::size_t>(workers_));
  for (auto& parts : out.parts) parts.clear();
  if (worker_split_ == Split::by_shard) return deal_shards(out);
  const auto size = static_cast<std::int64_t>(out.ids.size());
  if (worker_split_ == Split::interleaved && workers_ > 1) {
    for (std::size_t i = 0; i < out.ids.size(); ++i) out.parts[i % out.parts.size()].push_back({i, i + 1});
    return;
  }
  for (std::int64_t w = 0; w < workers_; ++w) {
    out.parts[static_cast<std::size_t>(w)].push_back(
        {static_cast<std::size_t>(share(size, w, workers_)),
         static_cast<std::size_t>(share(size, w + 1, workers_))});
  }
}

void Planner::deal_shards(Slots& out) const {
  const std::int64_t ranks = rank_split_ == Split::by_shard ? world_.size : 1;
  std::size_t begin = 0;
  for (const ShardSpan& span : spans_) {
    const std::size_t end = begin + static_cast<std::size_t>(span.count);
    auto& parts = out.parts[static_cast<std::size_t>(span.shard.value / ranks % workers_)];
    if (!parts.empty() && parts.back().end == begin) {
      parts.back().end = end;
    } else {
      parts.push_back({begin, end});
    }
    begin = end;
  }
}

std::optional<Position> Planner::find(const Position& at, std::size_t dataset, std::int64_t epoch,
                                      SampleId id) {
  if (auto* mixture = std::get_if<MixtureSchedule>(&schedule_)) {
    return mixture->find(at, global_batch_size_, dataset, epoch, id);
  }
  auto& schedule = std::get<Schedule>(schedule_);
  return schedule.find(at, global_batch_size_, schedule.turn(epoch, id));
}

// The inverse of take, take_shards and take_turns.
int Planner::rank_of(std::int64_t slot, std::int64_t slots, ShardId shard) const noexcept {
  if (rank_split_ == Split::by_shard) return static_cast<int>(shard.value % world_.size);
  if (rank_split_ == Split::interleaved) return static_cast<int>(slot % world_.size);
  __extension__ using i128 = __int128;
  return static_cast<int>((i128{slot + 1} * world_.size - 1) / slots);  // the last whose slice begins there
}

std::optional<BatchSlot> Planner::when(const Position& at, SampleId id, std::int64_t epoch) {
  std::size_t d = epochs_.size() - 1;
  while (id.value < run_order_->firsts[d]) --d;
  id.value -= run_order_->firsts[d];
  const auto start = find(at, d, epoch, id);
  GlobalBatch batch;
  const auto is_there = [&](const auto& schedule) {
    return schedule.batch(*start, global_batch_size_, batch);
  };
  if (!start || !start->is_countable() || !std::visit(is_there, schedule_)) return std::nullopt;
  std::visit([&](auto& schedule) { schedule.slice(batch, 0, batch.size, all_); }, schedule_);
  const ShardPosition found = run_order_->orders[d].epoch(epoch).locate(id);
  std::int64_t slot = 0;
  for (const ShardSpan& span : all_) {
    const std::int64_t offset = found.position - span.position;
    if (span.kind == SlotKind::sample && static_cast<std::size_t>(span.dataset) == d && span.epoch == epoch &&
        span.shard == found.shard && offset >= 0 && offset < span.count) {
      return BatchSlot{start->step, rank_of(slot + offset, batch.size, found.shard), slot + offset};
    }
    slot += span.count;
  }
  return std::nullopt;  // only as padding
}

WorkerInfo Planner::describe(int worker) const noexcept {
  const bool by_rank = rank_split_ == Split::by_shard;
  const bool by_worker = worker_split_ == Split::by_shard;
  const std::int64_t ranks = by_rank ? world_.size : 1;
  const std::int64_t first = (by_rank ? world_.rank : 0) + ranks * (by_worker ? worker : 0);
  return {.world = world_,
          .worker = worker,
          .workers = static_cast<int>(workers_),
          .shards = ShardList::every(ranks * (by_worker ? workers_ : 1), first, shards_)};
}

}  // namespace rota::internal
