#include "order/steps.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

}  // namespace

void Steps::require(const Position& at) const {
  if (at.is_countable() && at.consumed <= samples_) return;
  throw failure(
      ErrorCode::out_of_range,
      "go to epoch {}, sample {}, step {}: an epoch has {} samples; epochs and steps go from 0 to 2^62",
      at.epoch, at.consumed, at.step, samples_);
}

bool Steps::batch(const Position& at, std::int64_t size, GlobalBatch& out) const {
  assert(size >= 1 && size <= kMaxBatchSize);
  require(at);
  if (samples_ == 0 || (tail_ == Tail::drop && size > samples_)) return false;

  Position p = at;
  const auto finish_epoch = [&] {
    ++p.epoch;
    p.consumed = 0;
  };
  const auto is_over = [&] {
    return tail_ == Tail::drop ? samples_ - p.consumed < size : p.consumed == samples_;
  };
  if (is_over()) finish_epoch();
  if (p.epoch >= epochs_) return false;

  out.start = p;
  out.turn_ranges.clear();
  std::int64_t left = size;
  do {
    const std::int64_t take = std::min(left, samples_ - p.consumed);
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
  return p.is_countable();
}

std::int64_t Steps::count(const Position& from, std::int64_t size) const {
  if (epochs_ == kEndless)
    throw failure(ErrorCode::unsupported, "count the steps of a run: it has no last epoch");
  if (from.epoch >= epochs_) return from.step;
  const i128 more = epochs_ - from.epoch - 1;  // epochs behind this one
  const std::int64_t left = samples_ - from.consumed;
  const i128 steps = tail_ == Tail::carry ? (more * samples_ + left + size - 1) / size
                                          : more * steps_of(samples_, size) + steps_of(left, size);
  return static_cast<std::int64_t>(std::min<i128>(from.step + steps, kMost));
}

std::int64_t Steps::steps_of(std::int64_t left, std::int64_t size) const noexcept {
  return left / size + (tail_ != Tail::drop && left % size != 0 ? 1 : 0);
}

Steps::Way Steps::way(const Position& from, std::int64_t size, const Turn& to) const {
  const i128 epochs = i128{to.epoch} - from.epoch;
  if (tail_ == Tail::carry) {
    const i128 turns = epochs * samples_ + to.consumed - from.consumed;
    return {.batches = turns / size, .rest = static_cast<std::int64_t>(turns % size)};
  }
  const i128 before =
      epochs == 0 ? 0 : steps_of(samples_ - from.consumed, size) + (epochs - 1) * steps_of(samples_, size);
  const std::int64_t turns = to.consumed - (epochs == 0 ? from.consumed : 0);
  return {.batches = before + turns / size, .rest = turns % size};
}

bool Steps::lead(const Position& from, std::int64_t size, const Position& at) const {
  const bool is_past_end = at.epoch > epochs_ || (at.epoch == epochs_ && at.consumed > 0);
  if (is_past_end || from.consumed > samples_ || at.consumed > samples_) return false;
  const auto [batches, rest] = way(from, size, {at.epoch, at.consumed});
  if (batches < 0 || rest < 0 || (tail_ != Tail::carry && at.epoch < from.epoch)) return false;
  const bool is_cut = rest != 0;  // as the last batch of the run is
  return i128{at.step} - from.step == batches + (is_cut ? 1 : 0) &&
         (!is_cut || (tail_ == Tail::carry && at.epoch >= epochs_));
}

std::optional<Position> Steps::find(const Position& from, std::int64_t size, const Turn& turn) const {
  if (samples_ == 0 || turn.epoch >= epochs_) return std::nullopt;
  const i128 step = from.step + way(from, size, turn).batches;
  if (step > kMost) return std::nullopt;
  const auto start = start_of(from, size, static_cast<std::int64_t>(step));
  const bool is_dropped = start && tail_ == Tail::drop && start->epoch != turn.epoch;
  return is_dropped ? std::nullopt : start;
}

std::optional<Position> Steps::start_of(const Position& from, std::int64_t size, std::int64_t step) const {
  const std::int64_t each = steps_of(samples_, size);
  if (each == 0) return std::nullopt;
  i128 epoch = from.epoch;
  i128 ahead = step - from.step;
  if (tail_ == Tail::carry) {
    ahead = from.consumed + ahead * size;  // turns from the beginning of epoch from.epoch on
    epoch += ahead / samples_;
    ahead %= samples_;
  } else if (const std::int64_t first = steps_of(samples_ - from.consumed, size); ahead < first) {
    ahead = from.consumed + ahead * size;
  } else {
    epoch += 1 + (ahead - first) / each;
    ahead = (ahead - first) % each * size;
  }
  if (epoch >= epochs_) return std::nullopt;
  return Position{static_cast<std::int64_t>(epoch), static_cast<std::int64_t>(ahead), step};
}

}  // namespace rota::internal
