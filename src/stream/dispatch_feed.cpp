#include "stream/dispatch_feed.hpp"

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {

DispatchFeed::DispatchFeed(const Dispatch& dispatch, StreamBatchPool& pool,
                           const StreamLoaderOptions& options, mpi::DeferredReduction& agreement,
                           mpi::Communicator channel)
    : pool_(&pool),
      layout_(*pool.fields()),
      plan_{.shards = dispatch.shards, .split = dispatch.rank_split, .ranks = agreement.comm().size()},
      rank_(agreement.comm().rank()),
      channel_comm_(std::move(channel)) {
  if (rank_ == 0) {
    dispatcher_.emplace(dispatch.source, layout_, plan_, options, channel_comm_);
  } else {
    receiver_.emplace(channel_comm_, agreement);
  }
}

DispatchFeed::~DispatchFeed() {
  if (!is_quiet_) channel_comm_.abandon();
}

MessageChannel& DispatchFeed::channel() noexcept {
  if (dispatcher_) return *dispatcher_;
  return *receiver_;
}

void DispatchFeed::add_stats(LoaderStats& stats) const {
  dispatcher_ ? dispatcher_->add_stats(stats) : receiver_->add_stats(stats);
}

std::optional<FeedHead> DispatchFeed::peek() {
  const Arrival* const arrival = channel().peek();
  if (next_) return next_->head;
  return arrival == nullptr ? std::nullopt : std::optional(open(*arrival));
}

FeedHead DispatchFeed::wait() { return next_ ? next_->head : open(channel().wait()); }

// What may fail does so here, before anything is promised.
FeedHead DispatchFeed::open(const Arrival& arrival) {
  OpenedMessage& next = next_.emplace();
  next.error = arrival.error;
  if (arrival.message) {
    const MessageHead head = head_of(arrival.message);
    assert(head.epoch == epoch_ && head.first == delivered_);
    next.head = {.kind = static_cast<FeedHead::Kind>(head.kind), .epoch = head.epoch};
    next.count = head.count;
  }
  try {
    if (!next.error && next.head.kind == FeedHead::Kind::batch) next.batch = decode(arrival.message);
  } catch (...) {
    next.error = std::current_exception();
    next.is_kept = true;
  }
  if (next.error) next.head = {.kind = FeedHead::Kind::failed, .epoch = epoch_};
  return next.head;
}

std::unique_ptr<StreamBatchMemory> DispatchFeed::decode(const RankMessage& message) const {
  const MessageHead head = head_of(message);
  std::vector<std::int64_t> items;
  std::vector<ByteSpan> records;
  ByteSpan rest = records_of(message);
  for (const DispatchPlan::Slot& slot : plan_.slots(head.first, head.count)) {
    if (slot.rank != rank_) continue;
    items.push_back(head.first + slot.item);
    records.push_back(layout_.first(rest));
    rest = rest.subspan(records.back().size());
  }
  auto batch = pool_->take();
  batch->resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t position = plan_.position_of(items[i]);
    batch->ids[i] = {.shard = plan_.shard_of(items[i]), .input = position};
    batch->positions[i] = position;
  }
  layout_.decode(records, *batch);
  return batch;
}

std::unique_ptr<StreamBatchMemory> DispatchFeed::take() {
  OpenedMessage next = *std::exchange(next_, std::nullopt);
  if (!next.is_kept) channel().drop();
  if (next.error) std::rethrow_exception(next.error);
  delivered_ += next.count;
  if (next.head.kind == FeedHead::Kind::epoch_end) {
    ++epoch_;
    delivered_ = 0;
  }
  return std::move(next.batch);
}

int DispatchFeed::owner(ShardId shard) const {
  if (plan_.split == Split::by_shard) return static_cast<int>(shard.value % plan_.ranks);
  throw Error(ErrorCode::unsupported,
              fmt::format("ask who owns shard {}: items are dispatched by sample, so that no rank does; "
                          "dispatch them by shard",
                          shard.value));
}

void DispatchFeed::restart(DispatchStart start) {
  next_.reset();
  epoch_ = start.epoch;
  delivered_ = start.delivered;
  if (receiver_) return receiver_->restart(restores_);
  dispatcher_->restart({.generation = restores_,
                        .epoch = start.epoch,
                        .first = start.delivered,
                        .source = std::move(start.source),
                        .pending = std::move(start.pending)});
}

}  // namespace rota::internal
