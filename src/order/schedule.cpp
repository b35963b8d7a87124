#include "order/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "order/turns.hpp"
#include "rota/error.hpp"
#include "values/enumerators.hpp"
#include "values/option.hpp"

namespace rota::internal {
namespace {

__extension__ using i128 = __int128;

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
    constexpr OptionCheck kCheck("make a schedule");
    kCheck.one_of("tail", tail, kTails);
    kCheck.in_range("epochs", epochs, 0);
  }

  bool batch(const Position& at, std::int64_t size, GlobalBatch& out) const;
  void slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out);
  void cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out);
  Turn turn(std::int64_t epoch, SampleId id);
  [[nodiscard]] std::optional<Position> find(const Position& at, std::int64_t size, const Turn& turn) const;

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
  [[nodiscard]] std::optional<Position> find_ahead(const Position& at, std::int64_t size,
                                                   const Turn& turn) const;
  [[nodiscard]] bool leads_to(const Position& at, std::int64_t size) const;
  void enter_epoch(std::int64_t epoch);
  [[nodiscard]] std::int64_t group_of(std::int64_t place) const {
    return groups_ ? (*groups_)(place) : place;
  }
  [[nodiscard]] std::int64_t place_of(std::int64_t group) const {
    return groups_ ? groups_->inverse(group) : group;
  }
  [[nodiscard]] std::int64_t place_at(std::int64_t consumed) const;
  [[nodiscard]] std::int64_t place_begin(std::int64_t place) const;
  void append(const TurnRange& range, std::int64_t begin, std::int64_t end, std::vector<ShardSpan>& out);

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
  OptionCheck("plan a global batch").in_range("its size", batch_size, 1, kMaxBatchSize);
  if (!at.is_countable() || at.consumed > plan().samples()) {
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("plan a batch at epoch {}, sample {}, step {}: an epoch has {} samples; epochs and "
                    "steps go from 0 to 2^62",
                    at.epoch, at.consumed, at.step, plan().samples()));
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

// Slots [begin, end) of `range`. Groups are consumed one after the other, so slot i of it lies in the group
// that takes turn range.begin + i; only inside a group does the order of slots differ from that of turns.
void Schedule::Impl::append(const TurnRange& range, std::int64_t begin, std::int64_t end,
                            std::vector<ShardSpan>& out) {
  enter_epoch(range.epoch);
  const ShardSpan span{.epoch = range.epoch, .kind = range.kind};
  for (std::int64_t at = range.begin + begin, last = range.begin + end; at < last;) {
    const std::int64_t place = place_at(at);
    const std::int64_t group_begin = place_begin(place);
    const std::int64_t from = std::max(range.begin, group_begin);
    const std::int64_t to = std::min(range.end, place_begin(place + 1));
    const std::int64_t count = std::min(last, to) - at;
    std::visit(
        [&](auto& turns) {
          turns.load(group_of(place), from - group_begin, to - group_begin);
          append_spans(turns, span, at - from, count, out);
        },
        turns_);
    at += count;
  }
}

void Schedule::Impl::slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end,
                           std::vector<ShardSpan>& out) {
  out.clear();
  const std::int64_t samples = plan().samples();
  std::int64_t before = 0;  // slots of the turn_ranges before this one
  for (const TurnRange& range : batch.turn_ranges) {
    // Padding may go through the epoch's turns more than once.
    for (std::int64_t turn = range.begin; turn < range.end && before < end;) {
      const std::int64_t cycle = turn / samples * samples;
      const std::int64_t stop = std::min(range.end, cycle + samples);
      const std::int64_t from = std::max<std::int64_t>(begin - before, 0);
      const std::int64_t to = std::min(end - before, stop - turn);
      if (from < to) append({range.epoch, turn - cycle, stop - cycle, range.kind}, from, to, out);
      before += stop - turn;
      turn = stop;
    }
  }
}

void Schedule::Impl::cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out) {
  check(at, 1);
  if (first < 0 || first > plan().shards() - std::ssize(out) / 2) {
    throw Error(ErrorCode::out_of_range, fmt::format("work out cursors of {} shards from {} on: there are {}",
                                                     out.size() / 2, first, plan().shards()));
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
  const ShardPosition found = order_.epoch(epoch).locate(id);
  const std::int64_t group = found.shard.value / plan().interleave();
  const std::int64_t before = std::visit(
      [&](const auto& turns) { return turns.turns_before(group, found.shard.value, found.position); },
      turns_);
  return {epoch, place_begin(place_of(group)) + before};
}

std::optional<Position> Schedule::Impl::find_ahead(const Position& at, std::int64_t size,
                                                   const Turn& turn) const {
  const std::int64_t samples = plan().samples();
  const i128 epochs = i128{turn.epoch} - at.epoch;
  i128 steps = 0;  // before the batch
  Position start;
  if (tail_ == Tail::carry) {
    steps = (epochs * samples + turn.consumed - at.consumed) / size;
    const i128 turns = at.consumed + steps * size;  // from the beginning of epoch at.epoch on
    start.epoch = at.epoch + static_cast<std::int64_t>(turns / samples);
    start.consumed = static_cast<std::int64_t>(turns % samples);
  } else {
    const auto steps_from = [&](std::int64_t consumed) {
      const std::int64_t left = samples - consumed;
      return left / size + (tail_ != Tail::drop && left % size != 0 ? 1 : 0);
    };
    const std::int64_t first = epochs == 0 ? at.consumed : 0;
    const std::int64_t step = (turn.consumed - first) / size;
    if (step >= steps_from(first)) return std::nullopt;
    steps = step + (epochs == 0 ? 0 : steps_from(at.consumed) + (epochs - 1) * steps_from(0));
    start.epoch = turn.epoch;
    start.consumed = first + step * size;
  }
  if (at.step + steps > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  start.step = static_cast<std::int64_t>(at.step + steps);
  return start;
}

// Do batches of `size` from the beginning of the run on lead to `at`?
bool Schedule::Impl::leads_to(const Position& at, std::int64_t size) const {
  const std::int64_t samples = plan().samples();
  if (tail_ == Tail::carry) {
    const i128 turns = i128{at.epoch} * samples + at.consumed;
    const bool is_cut = turns % size != 0;  // as the last batch of the run is
    return at.step == turns / size + (is_cut ? 1 : 0) && (!is_cut || at.epoch >= epochs_);
  }
  const std::int64_t steps = samples / size + (tail_ != Tail::drop && samples % size != 0 ? 1 : 0);
  return at.consumed % size == 0 && at.step == i128{at.epoch} * steps + at.consumed / size;
}

std::optional<Position> Schedule::Impl::find(const Position& at, std::int64_t size, const Turn& turn) const {
  check(at, size);
  if (plan().samples() == 0 || turn.epoch >= epochs_) return std::nullopt;
  if (std::pair(turn.epoch, turn.consumed) >= std::pair(at.epoch, at.consumed)) {
    return find_ahead(at, size, turn);
  }
  if (leads_to(at, size)) return find_ahead({}, size, turn);
  throw Error(
      ErrorCode::unsupported,
      fmt::format("find the batch of the sample at place {} of epoch {}: it came before epoch {}, sample {}, "
                  "step {}, where batches of {} do not lead, and what they were is not known; ask where the "
                  "run was then",
                  turn.consumed, turn.epoch, at.epoch, at.consumed, at.step, size));
}

Schedule::Schedule(Order order, Tail tail, std::int64_t epochs)
    : impl_(std::make_unique<Impl>(std::move(order), tail, epochs)) {}
Schedule::~Schedule() = default;
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule&&) noexcept = default;

bool Schedule::batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const {
  return impl_->batch(at, batch_size, out);
}
void Schedule::slice(const GlobalBatch& batch, std::int64_t begin, std::int64_t end,
                     std::vector<ShardSpan>& out) {
  impl_->slice(batch, begin, end, out);
}
void Schedule::cursors(const Position& at, std::int64_t first, std::span<std::int64_t> out) {
  impl_->cursors(at, first, out);
}
Turn Schedule::turn(std::int64_t epoch, SampleId id) { return impl_->turn(epoch, id); }
std::optional<Position> Schedule::find(const Position& at, std::int64_t batch_size, const Turn& turn) const {
  return impl_->find(at, batch_size, turn);
}
const Order& Schedule::order() const noexcept { return impl_->order(); }
Tail Schedule::tail() const noexcept { return impl_->tail(); }
std::int64_t Schedule::epochs() const noexcept { return impl_->epochs(); }
std::size_t Schedule::memory_bytes() const noexcept { return impl_->memory_bytes(); }

}  // namespace rota::internal
