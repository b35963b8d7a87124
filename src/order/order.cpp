#include "order/order.hpp"

#include <algorithm>
#include <utility>

namespace rota::internal {
namespace {

BlockShape clamp(BlockShape shape, std::int64_t samples, const BlockBegins& begins) {
  shape.samples = std::clamp<std::int64_t>(shape.samples, 1, std::max<std::int64_t>(samples, 1));
  const std::int64_t blocks =
      begins ? std::ssize(*begins) - 1 : (samples + shape.samples - 1) / shape.samples;
  shape.blocks = std::clamp<std::int64_t>(shape.blocks, 1, std::max<std::int64_t>(blocks, 1));
  return shape;
}

Permutation whole(Shuffle shuffle, std::int64_t samples, std::int64_t blocks, std::uint64_t seed,
                  std::int64_t epoch) {
  if (shuffle == Shuffle::global) return {samples, derive_key(seed, epoch, Purpose::global, 0)};
  if (shuffle == Shuffle::block) return {blocks, derive_key(seed, epoch, Purpose::blocks, 0)};
  return {0, {}};
}

// The last of `begins` that is at most `at`.
std::int64_t last_at(const std::vector<std::int64_t>& begins, std::int64_t at) noexcept {
  return std::ranges::upper_bound(begins, at) - begins.begin() - 1;
}

}  // namespace

EpochOrder::EpochOrder(const ShardPlan& plan, Shuffle shuffle, std::uint64_t seed, BlockShape shape,
                       const BlockBegins& begins, std::int64_t epoch)
    : plan_(plan),
      shuffle_(shuffle),
      seed_(seed),
      shape_(clamp(shape, plan.samples(), begins)),
      epoch_(epoch),
      blocks_(begins ? std::ssize(*begins) - 1 : (plan.samples() + shape_.samples - 1) / shape_.samples),
      whole_(whole(shuffle, plan.samples(), blocks_, seed, epoch)),
      begins_(begins) {
  if (shuffle != Shuffle::block || plan.samples() == 0) return;
  if (!begins) {
    missing_ = blocks_ * shape_.samples - plan.samples();
    short_slot_ = whole_.inverse(blocks_ - 1);
    return;
  }
  auto slots = std::make_shared<std::vector<std::int64_t>>(begins->size());
  for (std::int64_t slot = 0; slot < blocks_; ++slot) {
    const std::int64_t block = whole_(slot);
    const auto at = static_cast<std::size_t>(slot);
    (*slots)[at + 1] = (*slots)[at] + block_begin(block + 1) - block_begin(block);
  }
  slots_ = std::move(slots);
}

Permutation EpochOrder::within(std::int64_t shard) const noexcept {
  return {plan_.length(shard), derive_key(seed_, epoch_, Purpose::within, shard)};
}

void EpochOrder::samples(std::span<const ShardSpan> spans, SampleId* out) const noexcept {
  SampleId* at = out;
  for (const ShardSpan& span : spans) {
    const std::int64_t index = plan_.begin(span.shard.value) + span.position;
    switch (shuffle_) {
      case Shuffle::none:
      case Shuffle::global:
        for (std::int64_t i = 0; i < span.count; ++i) at[i].value = index + i;
        break;
      case Shuffle::within:
        within_samples(span, at);
        break;
      case Shuffle::block:
        block_samples(index, span.count, at);
        break;
    }
    at += span.count;
  }
  if (shuffle_ != Shuffle::global) return;
  whole_.apply(std::span(out, at));  // all at once, whatever the spans
}

void EpochOrder::within_samples(const ShardSpan& span, SampleId* out) const noexcept {
  const std::int64_t begin = plan_.begin(span.shard.value);
  const Permutation permutation = within(span.shard.value);
  for (std::int64_t i = 0; i < span.count; ++i) out[i].value = span.position + i;
  permutation.apply(std::span(out, static_cast<std::size_t>(span.count)));
  for (std::int64_t i = 0; i < span.count; ++i) out[i].value += begin;
}

ShardPosition EpochOrder::locate(SampleId id) const noexcept {
  std::int64_t index = id.value;
  if (shuffle_ == Shuffle::global) index = whole_.inverse(id.value);
  if (shuffle_ == Shuffle::block) index = block_index(id);
  const ShardId shard = plan_.shard_at(index);
  const std::int64_t position = index - plan_.begin(shard.value);
  return {shard, shuffle_ == Shuffle::within ? within(shard.value).inverse(position) : position};
}

std::int64_t EpochOrder::slot_begin(std::int64_t slot) const noexcept {
  if (slots_) return (*slots_)[static_cast<std::size_t>(slot)];
  return slot * shape_.samples - (slot > short_slot_ ? missing_ : 0);
}

std::int64_t EpochOrder::slot_at(std::int64_t index) const noexcept {
  if (slots_) return last_at(*slots_, index);
  const std::int64_t slot = std::min(index / shape_.samples, short_slot_);
  return index < slot_begin(slot + 1) ? slot : (index + missing_) / shape_.samples;
}

std::int64_t EpochOrder::window_begin(std::int64_t window) const noexcept {
  return slot_begin(std::min(window * shape_.blocks, blocks_));
}

Permutation EpochOrder::window(std::int64_t window) const noexcept {
  return {window_begin(window + 1) - window_begin(window),
          derive_key(seed_, epoch_, Purpose::window, window)};
}

void EpochOrder::block_samples(std::int64_t index, std::int64_t count, SampleId* out) const noexcept {
  while (count > 0) {
    const std::int64_t w = slot_at(index) / shape_.blocks;
    const std::int64_t begin = window_begin(w);
    const Permutation mix = window(w);
    const std::int64_t end = std::min(index + count, window_begin(w + 1));
    for (; index < end; ++index, --count) {
      const std::int64_t place = begin + mix(index - begin);
      const std::int64_t slot = slot_at(place);
      (out++)->value = block_begin(whole_(slot)) + (place - slot_begin(slot));
    }
  }
}

std::vector<SampleRange> EpochOrder::blocks_of(std::int64_t window) const {
  std::vector<SampleRange> blocks;
  const std::int64_t end = std::min((window + 1) * shape_.blocks, blocks_);
  for (std::int64_t slot = window * shape_.blocks; slot < end; ++slot) {
    const std::int64_t begin = block_begin(whole_(slot));
    blocks.push_back({.begin = begin, .end = begin + slot_begin(slot + 1) - slot_begin(slot)});
  }
  return blocks;
}

std::int64_t EpochOrder::block_index(SampleId id) const noexcept {
  const std::int64_t block = begins_ ? last_at(*begins_, id.value) : id.value / shape_.samples;
  const std::int64_t slot = whole_.inverse(block);
  const std::int64_t w = slot / shape_.blocks;
  const std::int64_t begin = window_begin(w);
  return begin + window(w).inverse(slot_begin(slot) + id.value - block_begin(block) - begin);
}

Order::Order(ShardPlan plan, Shuffle shuffle, std::uint64_t seed, BlockShape shape, BlockBegins begins)
    : plan_(std::move(plan)), shuffle_(shuffle), seed_(seed), shape_(shape), begins_(std::move(begins)) {}

std::optional<Permutation> Order::groups(std::int64_t epoch) const noexcept {
  if (shuffle_ == Shuffle::none || plan_.groups() == 1) return std::nullopt;
  return Permutation(plan_.groups(), derive_key(seed_, epoch, Purpose::groups, 0));
}

}  // namespace rota::internal
