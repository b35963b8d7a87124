#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/bytes.hpp"
#include "core/mutex.hpp"
#include "loader/work_done.hpp"
#include "ranks/messages.hpp"
#include "stream/dispatch_items.hpp"
#include "stream/feed.hpp"
#include "stream/shard_reader.hpp"
#include "stream/stream_facts.hpp"

namespace rota::internal {

using RankMessage = std::shared_ptr<const ranks::Bytes>;

/// What a message begins with; the records of a rank's items in a batch follow, in canonical order.
struct MessageHead {
  std::int64_t generation = 0;  // the restore that the loader goes on from
  FeedHead::Kind kind = FeedHead::Kind::batch;
  std::int64_t epoch = 0;  // of the items
  std::int64_t first = 0;  // number of the batch's first item in the epoch
  std::int64_t count = 0;  // items of the batch, over all ranks
};

/// Of a message that comes from this program.
inline MessageHead head_of(const RankMessage& message) noexcept { return load<MessageHead>(*message); }
inline ByteSpan records_of(const RankMessage& message) noexcept {
  return ByteSpan(*message).subspan(sizeof(MessageHead));
}

/// What comes next for all ranks: a batch, the end of an epoch, or an error.
struct StepMessages {
  MessageHead head;
  // One for each rank; where it is no batch, the same for all. On a rank that was sent it, its own alone.
  std::vector<RankMessage> by_rank = {};
  std::int64_t bytes = 0;  // of the records
  std::exception_ptr error = nullptr;
  [[nodiscard]] bool is_batch() const noexcept { return head.kind == FeedHead::Kind::batch; }
};

/// Where a dispatched source is: behind the last item that was read of it.
struct SourceProgress {
  std::int64_t epoch = 0;
  ShardProgress shard = {};  // `position`: items read of the epoch; `is_done`: the end of it was seen
};

/// Where a dispatch goes on from.
struct DispatchStart {
  std::int64_t epoch = 0;
  std::int64_t delivered = 0;  // items of the epoch, over all ranks
  SourceProgress source = {};  // this one and the next: on rank 0 alone
  KeptSamples pending = {};    // read, and not delivered
  std::int64_t generation = 0;
};

/// Reads a dispatched source ahead of the caller and makes steps of its items, by a thread or, with no
/// workers, inside `wait`. Reading waits while as many steps are not delivered as batches may be read
/// ahead, or too many bytes; a step never goes on into the next epoch, and an epoch without items is the
/// last. Items that are pending, which are in order, are read first, then those of the source, opened where
/// it is, by an instance of its own if it makes one. It begins paused, so that nothing is read of a pipe
/// before a restore has said what of it is gone.
///
/// What both threads use is under one mutex, which nobody has locked while reading or copying. Its caller is
/// one thread.
class StepBuilder {
 public:
  /// `source` and `layout` must outlive it.
  StepBuilder(const StreamSource& source, const RecordLayout& layout, const DispatchPlan& plan,
              const StreamLoaderOptions& options, DispatchStart start);
  /// Waits for a read that is under way.
  ~StepBuilder() = default;
  StepBuilder(const StepBuilder&) = delete;
  StepBuilder& operator=(const StepBuilder&) = delete;

  /// The next step, if it is there by now.
  [[nodiscard]] std::optional<StepMessages> poll();
  /// The next step. Blocks. There is always one, until that of the last epoch's end is taken.
  [[nodiscard]] StepMessages wait();
  /// A step was delivered to all ranks, or was an error and was told.
  void drop(const StepMessages& messages);

  /// Waits for a read that is under way, and has no more begun until `resume`. Throws what the source throws
  /// when asked for its cursor.
  void pause();
  /// Reads on: also where an error was told, which the caller may have mended since.
  void resume();
  /// Adds what was read and was not polled, while it is paused; returns where the source is behind it.
  [[nodiscard]] SourceProgress add_pending(KeptSamples& out) const;
  /// Adds the items of a step.
  void add_items(const StepMessages& messages, KeptSamples& out) const;

  void add_stats(LoaderStats& stats) const;

 private:
  void work(const std::stop_token& stop);
  [[nodiscard]] bool can_read() const noexcept ROTA_REQUIRES(mutex_);
  void make() ROTA_REQUIRES(mutex_);
  void park() ROTA_REQUIRES(mutex_);
  [[nodiscard]] std::optional<StepMessages> advance(WorkDone& done);
  void read(WorkDone& done);
  [[nodiscard]] bool read_item();
  [[nodiscard]] bool read_source();
  void take_cursor();
  [[nodiscard]] bool is_full() const noexcept;
  // Of the next step.
  [[nodiscard]] ByteSpan open_record(std::int64_t item) const noexcept;
  [[nodiscard]] StepMessages close_step();
  void require_message(std::size_t bytes) const;
  [[nodiscard]] MessageHead head(FeedHead::Kind kind, std::int64_t count) const noexcept;
  [[nodiscard]] StepMessages empty_step(FeedHead::Kind kind);
  void end_epoch();

  const StreamSource* source_;
  const RecordLayout* layout_;
  const DispatchPlan plan_;
  const std::int64_t generation_;
  const std::int64_t epochs_;
  const std::size_t batch_size_;
  const std::int64_t max_batches_;
  const std::int64_t max_bytes_;

  // Of the reading thread, or of the caller while that is parked.
  SourceProgress place_;
  KeptSamples pending_;  // to be read before the source
  std::size_t next_pending_ = 0;
  Reading reading_;
  WorkerInstances instances_;           // outliving the reader that uses it
  ranks::MessageMemory memory_;         // for steps
  std::optional<ShardReader> reader_;   // at place_, where it was opened
  std::int64_t epoch_;                  // being read
  std::int64_t first_;                  // number of the next step's first item
  std::vector<std::byte> open_;         // records of the next step
  std::vector<std::size_t> open_ends_;  // where they end
  bool has_ended_ = false;              // the epoch
  bool is_over_;                        // nothing is to be read any more

  mutable Mutex mutex_;
  std::condition_variable_any worker_wakes_;
  std::condition_variable caller_wakes_;
  std::deque<StepMessages> ready_;                        // guarded, too, but for add_pending
  std::int64_t undelivered_ ROTA_GUARDED_BY(mutex_) = 0;  // steps
  std::int64_t bytes_ ROTA_GUARDED_BY(mutex_) = 0;        // of them
  std::int64_t open_bytes_ ROTA_GUARDED_BY(mutex_) = 0;   // of the next
  bool has_failed_ ROTA_GUARDED_BY(mutex_) = false;
  bool is_told_ ROTA_GUARDED_BY(mutex_) = false;  // the error of that
  bool is_paused_ ROTA_GUARDED_BY(mutex_) = true;
  bool is_parked_ ROTA_GUARDED_BY(mutex_) = false;
  std::exception_ptr park_error_ ROTA_GUARDED_BY(mutex_);
  LoaderStats::Worker stats_ ROTA_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace rota::internal
