#pragma once

#include <memory>
#include <optional>

#include "mpi/deferred_reduction.hpp"
#include "rota/stream_loader.hpp"
#include "stream/dispatcher.hpp"
#include "stream/feed.hpp"
#include "stream/receiver.hpp"

namespace rota::internal {

/// Where a dispatch goes on from.
struct DispatchStart {
  std::int64_t epoch = 0;
  std::int64_t delivered = 0;  // items of the epoch, over all ranks
  SourceProgress source = {};  // this one and the next: on rank 0 alone
  PendingItems pending = {};
};

/// What comes next, taken out of its message.
struct OpenedMessage {
  FeedHead head;
  std::int64_t count = 0;  // items of the batch, over all ranks
  std::unique_ptr<StreamBatchMemory> batch;
  std::exception_ptr error;
  bool is_kept = false;  // the error is of this rank, and the message is to be opened again
};

/// Batches of items that rank 0 reads: on rank 0 from a Dispatcher, on the others from a Receiver.
class DispatchFeed final : public Feed {
 public:
  /// `channel` is for messages alone. The others must outlive it.
  DispatchFeed(const Dispatch& dispatch, StreamBatchPool& pool, const StreamLoaderOptions& options,
               mpi::DeferredReduction& agreement, mpi::Communicator channel);
  ~DispatchFeed() override;

  [[nodiscard]] std::optional<FeedHead> peek() override;
  [[nodiscard]] FeedHead wait() override;
  std::unique_ptr<StreamBatchMemory> take() override;
  [[nodiscard]] int owner(ShardId shard) const override;
  void set_quiet(bool is_quiet) noexcept override { is_quiet_ = is_quiet; }
  void add_stats(LoaderStats& stats) const override;

  [[nodiscard]] const DispatchPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const RecordLayout& layout() const noexcept { return layout_; }
  /// Items of this epoch that were delivered, over all ranks.
  [[nodiscard]] std::int64_t delivered() const noexcept { return delivered_; }
  /// On rank 0 only: Dispatcher::pause.
  [[nodiscard]] SourceProgress pause(PendingItems& out) { return dispatcher_->pause(out); }
  /// Another restore begins; on all ranks equally many do.
  void count_restore() noexcept { ++restores_; }
  /// It ends well: goes on from `start`. What is on its way is dropped.
  void restart(DispatchStart start);

 private:
  [[nodiscard]] MessageChannel& channel() noexcept;
  FeedHead open(const Arrival& arrival);
  [[nodiscard]] std::unique_ptr<StreamBatchMemory> decode(const RankMessage& message) const;

  StreamBatchPool* pool_;
  RecordLayout layout_;
  DispatchPlan plan_;
  int rank_;
  mpi::Communicator channel_comm_;
  std::optional<Dispatcher> dispatcher_;
  std::optional<Receiver> receiver_;
  std::int64_t restores_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t delivered_ = 0;
  std::optional<OpenedMessage> next_;
  bool is_quiet_ = true;
};

}  // namespace rota::internal
