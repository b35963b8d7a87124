#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/mutex.hpp"
#include "loader/batch_memory.hpp"
#include "rota/stream_loader.hpp"
#include "stream/feed.hpp"
#include "stream/shard_reader.hpp"
#include "stream/stream_facts.hpp"

namespace rota::internal {

/// Where a rank is in the shards that it owns.
struct ShardRun {
  std::vector<ShardProgress> places;  // of those that are this rank's; they take turns in this order
  std::size_t first = 0;              // the next one's
};
/// Of these shards, none of which has given anything.
[[nodiscard]] ShardRun run_from_start(const std::vector<ShardId>& shards);

/// Where a ring begins, in this place of the world: in this epoch with this run, with `later` in those that
/// follow.
struct RingStart {
  World world;
  std::int64_t epoch = 0;
  ShardRun run;
  std::vector<ShardId> later;
};

/// Worker threads that read a rank's shards ahead of the caller, and a bounded line of batches made of them.
///
/// *Tickets* are dealt to the shards in turn, and queue up in that order. Each shard's tickets are read by
/// one worker; one that finds its shard at its end is void. Whatever the threads' timing, the tickets that
/// are not void are in one order, that in which shards take turns of which each leaves when it ends. Tickets
/// leave the front of the queue when they are read, and the next b of them are made into a batch by whichever
/// worker finds them so. A batch never goes on into the next epoch.
///
///   dealt -> read, or void -> gathered for a batch -> batch ready -> handed over
///
/// A ticket reads its fixed fields straight into the slot that it will probably have. Without that, rows of
/// 100 KiB come half as fast.
///
/// All of it is under one mutex, which nobody holds while reading, copying or taking memory.
class StreamRing {
 public:
  StreamRing(const StreamSource& source, BatchPool& pool, const StreamLoaderOptions& options,
             std::int64_t batch_size, RingStart start);
  ~StreamRing();
  StreamRing(const StreamRing&) = delete;
  StreamRing& operator=(const StreamRing&) = delete;

  /// What comes next, if that is known by now.
  [[nodiscard]] std::optional<FeedHead> peek() const;
  /// What comes next. Blocks. There is always something, until the end of the last epoch is taken.
  [[nodiscard]] FeedHead wait();
  /// Takes what comes next, and moves `run` on behind its samples; nullptr where it is no batch. Rethrows an
  /// error, after which the ring is done.
  std::unique_ptr<BatchMemory> take(ShardRun& run);

  /// Adds the workers' figures and the number of ready batches to `stats`.
  void add_stats(LoaderStats& stats) const;

 private:
  struct OpenBatch {
    std::unique_ptr<BatchMemory> memory;
    std::vector<bool> is_lent;  // per slot
  };
  struct Ticket {
    explicit Ticket(std::span<const Field> fields) : reading(fields) { SampleMemory::forget(reading.sample); }
    std::size_t shard = 0;
    OpenBatch* lender = nullptr;  // whose slot it reads into; null: none's
    std::size_t slot = 0;
    bool is_read = false;      // by its worker, which leaves the next two alone from here on
    Reading reading;           // void where there is no sample
    std::exception_ptr error;  // why there is none
    bool found_end = false;    // where void: it was the first to see its shard's end
  };
  using Tickets = std::vector<std::unique_ptr<Ticket>>;
  struct Item {
    FeedHead head = {};
    std::unique_ptr<BatchMemory> batch = nullptr;
    std::exception_ptr error = nullptr;
    Tickets tickets = {};                 // of the batch
    std::vector<std::size_t> ended = {};  // shards whose end was seen before its last sample
    std::int64_t bytes = 0;               // that it counts as
  };

  // What is in front of the ready.
  [[nodiscard]] FeedHead head() const ROTA_REQUIRES(mutex_);
  void work(const std::stop_token& stop, std::size_t worker);
  [[nodiscard]] bool has_work(std::size_t worker) const noexcept ROTA_REQUIRES(mutex_);
  void make(std::size_t worker) ROTA_REQUIRES(mutex_);
  void release(std::size_t worker) noexcept ROTA_REQUIRES(mutex_);
  void begin_epoch(ShardRun run) ROTA_REQUIRES(mutex_);
  void settle() ROTA_REQUIRES(mutex_);
  void deal() ROTA_REQUIRES(mutex_);
  void lend(Ticket& ticket, std::size_t number) ROTA_REQUIRES(mutex_);
  void gather() ROTA_REQUIRES(mutex_);
  void finish_epochs() ROTA_REQUIRES(mutex_);
  void finish(FeedHead::Kind kind, Item item) ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool is_epoch_read() const noexcept ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool can_open() const noexcept ROTA_REQUIRES(mutex_);
  void open() ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool can_assemble() const noexcept ROTA_REQUIRES(mutex_);
  void assemble() ROTA_REQUIRES(mutex_);
  static void fill(BatchMemory& batch, const Tickets& tickets);
  [[nodiscard]] bool may_read(const Ticket& ticket) const noexcept ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool is_needed(const Ticket& ticket) const noexcept ROTA_REQUIRES(mutex_);
  void read(std::size_t worker) ROTA_REQUIRES(mutex_);
  void read_one(Ticket& ticket, std::size_t worker);
  void publish(Ticket& ticket) ROTA_REQUIRES(mutex_);
  [[nodiscard]] std::unique_ptr<Ticket> unused_ticket() ROTA_REQUIRES(mutex_);

  const StreamSource& source_;
  BatchPool& pool_;
  const std::int64_t epochs_;
  const std::size_t batch_size_;
  const std::size_t max_batches_;
  const std::int64_t max_bytes_;
  const std::vector<ShardId> later_;

  mutable Mutex mutex_;
  std::condition_variable_any worker_wakes_;
  std::condition_variable caller_wakes_;
  std::int64_t epoch_ ROTA_GUARDED_BY(mutex_);         // being read
  bool is_between_ ROTA_GUARDED_BY(mutex_) = false;    // its end is told, and the next has not begun
  bool is_over_ ROTA_GUARDED_BY(mutex_) = false;       // nothing is to be read any more
  WorkerInstances instances_;                          // outliving the readers that use them
  std::vector<std::unique_ptr<ShardReader>> readers_;  // each used by one worker
  std::vector<bool> has_ended_ ROTA_GUARDED_BY(mutex_);
  std::deque<std::size_t> turns_
      ROTA_GUARDED_BY(mutex_);  // shards not known to have ended, the next in front
  std::deque<std::unique_ptr<Ticket>> queue_ ROTA_GUARDED_BY(mutex_);
  std::vector<std::deque<Ticket*>> queues_ ROTA_GUARDED_BY(mutex_);  // of each worker, in order
  Tickets gathered_ ROTA_GUARDED_BY(mutex_);                         // for the next batch
  std::vector<std::size_t> ended_ ROTA_GUARDED_BY(mutex_);  // shards whose end was seen since the last batch
  std::exception_ptr failure_ ROTA_GUARDED_BY(mutex_);      // of the next batch
  std::deque<OpenBatch> open_ ROTA_GUARDED_BY(mutex_);      // for the batches to come, the next in front
  bool is_opening_ ROTA_GUARDED_BY(mutex_) = false;
  bool has_news_ ROTA_GUARDED_BY(mutex_) =
      false;  // there may be work for others than the worker that made it
  bool is_assembling_ ROTA_GUARDED_BY(mutex_) = false;
  std::deque<Item> ready_ ROTA_GUARDED_BY(mutex_);
  Tickets unused_ ROTA_GUARDED_BY(mutex_);
  std::size_t queued_ ROTA_GUARDED_BY(mutex_) = 0;  // tickets in the queue that are not void
  std::int64_t bytes_ ROTA_GUARDED_BY(mutex_) =
      0;                      // of open and ready batches, of cursors and of ragged fields
  std::int64_t fixed_bytes_;  // of an open batch
  std::vector<LoaderStats::Worker> stats_ ROTA_GUARDED_BY(mutex_);
  BatchTimes times_ ROTA_GUARDED_BY(mutex_);  // of what was read since the last batch was taken
  std::vector<std::jthread> threads_;         // last: they use all of the above
};

}  // namespace rota::internal
