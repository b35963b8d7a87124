#include "loader/ahead.hpp"

#include <algorithm>
#include <utility>

namespace rota::internal {
namespace {

constexpr double kWindowsAhead = 2;  // the one at hand, and the next
// A rank that reads less of a window has others bring too much for it.
constexpr double kLeastPart = 0.25;

// How much of the shards of `order` that are consumed at a time a rank reads; 1: the samples of one shard.
double shards_of_rank(const Order& order, Split split, World world) {
  const auto shards = static_cast<double>(order.plan().interleave());
  return split == Split::interleaved ? std::min(1.0, shards) / world.size : shards / world.size;
}

double samples_of_block(const Order& order, const BlockShape& shape) {
  if (!order.block_begins()) return static_cast<double>(shape.samples);
  return static_cast<double>(order.plan().samples()) / static_cast<double>(order.block_begins()->size());
}

}  // namespace

BlocksAhead::BlocksAhead(const Source& source, const RunOrder& order, const LoaderOptions& options,
                         World world)
    : source_(source), order_(order), datasets_(order.orders.size()) {
  double samples = 0;  // that are ahead
  for (const Order& one : order.orders) {
    const double shards = shards_of_rank(one, options.rank_split, world);
    if (options.rank_split != Split::by_shard && shards < kLeastPart) is_on_ = false;
    samples += kWindowsAhead * std::max(shards, 1.0) * samples_of_block(one, options.block) *
               static_cast<double>(options.block.blocks);
  }
  most_bytes_ = static_cast<double>(options.read_ahead_bytes) / std::max(samples, 1.0);
}

void BlocksAhead::look(const Planner& planner) noexcept {
  try {
    for (const ShardSpan& span : planner.spans()) {
      if (!is_on_) return;
      const EpochOrder& order = planner.order(span.dataset);
      if (span.kind == SlotKind::sample && span.epoch == order.epoch()) look(order, span);
    }
  } catch (...) {
    is_on_ = false;  // whoever reads will be told
  }
}

void BlocksAhead::look(const EpochOrder& order, const ShardSpan& span) {
  const auto d = static_cast<std::size_t>(span.dataset);
  Dataset& dataset = datasets_[d];
  if (dataset.epoch != span.epoch) dataset = {.epoch = span.epoch};
  const std::int64_t length = order_.orders[d].plan().length(span.shard.value);
  const std::int64_t end = span.position + span.count;
  const auto [next, is_new] =
      dataset.next.try_emplace(span.shard.value, order.window_at(span.shard, span.position));
  const std::int64_t last =
      std::min(order.window_at(span.shard, end - 1) + 1, order.window_at(span.shard, length - 1));
  for (; next->second <= last && is_on_; ++next->second) bring(order, next->second, order_.firsts[d]);
  if (end == length) dataset.next.erase(next);
}

void BlocksAhead::bring(const EpochOrder& order, std::int64_t window, std::int64_t first_id) {
  for (const SampleRange& block : order.blocks_of(window)) {
    const std::int64_t count = block.end - block.begin;
    bytes_ += static_cast<double>(source_.will_read({first_id + block.begin}, count));
    samples_ += static_cast<double>(count);
    is_on_ = bytes_ > 0 && bytes_ <= most_bytes_ * samples_;
    if (!is_on_) return;
  }
}

PlanAhead::PlanAhead(std::shared_ptr<ReadPlan> plan, const LoaderOptions& options, World world)
    : plan_(std::move(plan)), world_(world), split_(options.rank_split) {}

std::shared_ptr<ReadPlan> PlanAhead::plan_of(const Source& source, const LoaderOptions& options) {
  return source.plan_reads((options.read_ahead_batches + 2) * options.global_batch_size);
}

void PlanAhead::follow(const Run& run, std::int64_t samples) noexcept {
  // So many at a time that all are told before long, and the first batch does not wait.
  constexpr std::int64_t kMostSamples = 1 << 14;
  if (!plan_) return;
  try {
    const std::int64_t want = plan_->samples_ahead() * world_.size;
    if (want == 0) return plan_.reset();
    const std::int64_t most = std::min(want, ahead_ + kMostSamples);
    if (!told_) told_ = run;
    while (ahead_ < std::max(most, samples) && told_->slice(slice_, world_, split_)) {
      told_->advance(slice_);
      plan_->tell(slice_.ids);
      ahead_ += slice_.global_size;
    }
    ahead_ -= samples;
  } catch (...) {
    plan_.reset();  // whoever reads will be told
  }
}

}  // namespace rota::internal
