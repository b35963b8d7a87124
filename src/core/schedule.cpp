#include "rota/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "core/turns.hpp"
#include "rota/error.hpp"

namespace rota {
namespace {

using internal::EqualTurns;
using internal::Frontier;
using internal::RaggedTurns;

using Turns = std::variant<EqualTurns, RaggedTurns>;

Turns turns_of(const ShardPlan& plan) {
  if (plan.is_equal()) return EqualTurns(plan);
  return RaggedTurns(plan);
}

}  // namespace

class Schedule::Impl {
 public:
  Impl(Order order, Tail tail, std::int64_t epochs)
      : order_(std::move(order)), tail_(tail), epochs_(epochs), turns_(turns_of(order_.plan())) {
    if (epochs < 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("schedule {} epochs: it must be 0 or more", epochs));
    }
  }

  bool batch(const Position& at, std::int64_t size, GlobalBatch& out) const;
  void slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end, std::vector<Span>& out);
  void cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out);
  Turn turn(std::int64_t epoch, SampleId id);

  [[nodiscard]] const Order& order() const noexcept { return order_; }
  [[nodiscard]] const ShardPlan& plan() const noexcept { return order_.plan(); }
  [[nodiscard]] Tail tail() const noexcept { return tail_; }
  [[nodiscard]] std::int64_t epochs() const noexcept { return epochs_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return plan().memory_bytes() + group_begins_.capacity() * sizeof(std::int64_t) +
           std::visit([](const auto& turns) { return turns.memory_bytes(); }, turns_);
  }

 private:
  void check(const Position& at, std::int64_t batch_size) const;
  void enter_epoch(std::int64_t epoch);
  [[nodiscard]] std::int64_t group_of(std::int64_t place) const {
    return groups_ ? (*groups_)(place) : place;
  }
  [[nodiscard]] std::int64_t place_of(std::int64_t group) const {
    return groups_ ? groups_->inverse(group) : group;
  }
  [[nodiscard]] std::int64_t place_at(std::int64_t consumed) const;
  [[nodiscard]] std::int64_t place_begin(std::int64_t place) const;
  void append(const Stretch& stretch, std::int64_t begin, std::int64_t end, std::vector<Span>& out);

  Order order_;
  Tail tail_;
  std::int64_t epochs_;

  // The epoch at hand: which group comes when.
  std::int64_t epoch_ = -1;
  std::optional<Permutation> groups_;
  std::vector<std::int64_t>
      group_begins_;  // [groups + 1] samples before the k-th group; empty where there is one
  Turns turns_;
};

void Schedule::Impl::check(const Position& at, std::int64_t batch_size) const {
  if (batch_size < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("plan a global batch of {} samples: it must be 1 or more", batch_size));
  }
  if (at.epoch < 0 || at.consumed < 0 || at.consumed > plan().samples()) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("plan a batch at epoch {}, sample {}: an epoch has {} samples", at.epoch,
                            at.consumed, plan().samples()));
  }
}

bool Schedule::Impl::batch(const Position& at, std::int64_t size, GlobalBatch& out) const {
  check(at, size);
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
  out.stretches.clear();
  std::int64_t left = size;
  do {
    const std::int64_t take = std::min(left, samples - p.consumed);
    out.stretches.push_back({p.epoch, p.consumed, p.consumed + take, Mark::real});
    left -= take;
    p.consumed += take;
    if (is_over()) finish_epoch();
  } while (tail_ == Tail::carry && left > 0 && p.epoch < epochs_);
  out.real = size - left;
  if (tail_ == Tail::pad && left > 0) {
    out.stretches.push_back({out.start.epoch, 0, left, Mark::pad});
    left = 0;
  }
  out.size = size - left;
  ++p.step;
  out.next = p;
  return true;
}

void Schedule::Impl::enter_epoch(std::int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  groups_ = order_.groups(epoch);
  group_begins_.clear();
  if (plan().groups() == 1) return;
  group_begins_.reserve(static_cast<std::size_t>(plan().groups()) + 1);
  std::int64_t begin = 0;
  for (std::int64_t k = 0; k < plan().groups(); ++k) {
    group_begins_.push_back(begin);
    begin += plan().group_samples(group_of(k));
  }
  group_begins_.push_back(begin);
}

std::int64_t Schedule::Impl::place_at(std::int64_t consumed) const {
  if (group_begins_.empty()) return 0;
  const auto after = std::upper_bound(group_begins_.begin(), group_begins_.end() - 1, consumed);
  return after - group_begins_.begin() - 1;
}

std::int64_t Schedule::Impl::place_begin(std::int64_t place) const {
  if (group_begins_.empty()) return place == 0 ? 0 : plan().samples();
  return group_begins_[static_cast<std::size_t>(place)];
}

// Slots [begin, end) of `stretch`. Groups are consumed one after the other, so slot i of it lies in the group
// that takes turn stretch.begin + i; only inside a group does the order of slots differ from that of turns.
void Schedule::Impl::append(const Stretch& stretch, std::int64_t begin, std::int64_t end,
                            std::vector<Span>& out) {
  enter_epoch(stretch.epoch);
  const Span span{.epoch = stretch.epoch, .mark = stretch.mark};
  for (std::int64_t at = stretch.begin + begin, last = stretch.begin + end; at < last;) {
    const std::int64_t place = place_at(at);
    const std::int64_t group_begin = place_begin(place);
    const std::int64_t from = std::max(stretch.begin, group_begin);
    const std::int64_t to = std::min(stretch.end, place_begin(place + 1));
    const std::int64_t count = std::min(last, to) - at;
    std::visit(
        [&](auto& turns) {
          turns.load(group_of(place), from - group_begin, to - group_begin);
          internal::append_spans(turns, span, at - from, count, out);
        },
        turns_);
    at += count;
  }
}

void Schedule::Impl::slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end,
                           std::vector<Span>& out) {
  out.clear();
  const std::int64_t samples = plan().samples();
  std::int64_t before = 0;  // slots of the stretches before this one
  for (const Stretch& stretch : batch.stretches) {
    // Padding may go through the epoch's turns more than once.
    for (std::int64_t turn = stretch.begin; turn < stretch.end && before < end;) {
      const std::int64_t cycle = turn / samples * samples;
      const std::int64_t stop = std::min(stretch.end, cycle + samples);
      const std::int64_t from = std::max<std::int64_t>(begin - before, 0);
      const std::int64_t to = std::min(end - before, stop - turn);
      if (from < to) append({stretch.epoch, turn - cycle, stop - cycle, stretch.mark}, from, to, out);
      before += stop - turn;
      turn = stop;
    }
  }
}

void Schedule::Impl::cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out) {
  check(at, 1);
  if (first < 0 || first + std::ssize(out) / 2 > plan().shards()) {
    throw Error(ErrorCode::out_of_range, fmt::format("work out cursors of shards {} to {}: there are {}",
                                                     first, first + std::ssize(out) / 2, plan().shards()));
  }
  enter_epoch(at.epoch);
  const std::int64_t place = place_at(at.consumed);
  const std::int64_t turns_in_group = at.consumed - place_begin(place);
  const Frontier frontier = std::visit(
      [&](auto& turns) {
        turns.load(group_of(place), turns_in_group, turns_in_group);
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
      group_place = place_of(group);
    }
    const std::int64_t end = plan().begin(shard + 1);
    const std::int64_t length = end - begin;
    begin = end;
    out[2 * i] = at.epoch;
    out[2 * i + 1] = group_place < place ? length : group_place > place ? 0 : frontier.cursor(shard, length);
  }
}

Turn Schedule::Impl::turn(std::int64_t epoch, SampleId id) {
  if (id.value < 0 || id.value >= plan().samples() || epoch < 0) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("find the turn of sample {} in epoch {}: the dataset has {} samples", id.value,
                            epoch, plan().samples()));
  }
  enter_epoch(epoch);
  const Seat seat = order_.epoch(epoch).seat(id);
  const std::int64_t group = seat.shard.value / plan().interleave();
  const std::int64_t before = std::visit(
      [&](const auto& turns) { return turns.turns_before(group, seat.shard.value, seat.position); }, turns_);
  return {epoch, place_begin(place_of(group)) + before};
}

Schedule::Schedule(Order order, Tail tail, std::int64_t epochs)
    : impl_(std::make_unique<Impl>(std::move(order), tail, epochs)) {}
Schedule::~Schedule() = default;
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule&&) noexcept = default;

bool Schedule::batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const {
  return impl_->batch(at, batch_size, out);
}
void Schedule::slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end, std::vector<Span>& out) {
  impl_->slice(batch, begin, end, out);
}
void Schedule::cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out) {
  impl_->cursors(at, first, out);
}
Turn Schedule::turn(std::int64_t epoch, SampleId id) { return impl_->turn(epoch, id); }
const Order& Schedule::order() const noexcept { return impl_->order(); }
Tail Schedule::tail() const noexcept { return impl_->tail(); }
std::int64_t Schedule::epochs() const noexcept { return impl_->epochs(); }
std::size_t Schedule::memory_bytes() const noexcept { return impl_->memory_bytes(); }

}  // namespace rota
