#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/mutex.hpp"
#include "loader/batch_maker.hpp"

namespace rota::internal {

/// Worker threads that make batches ahead of the caller, each its fixed part of every batch, and a bounded
/// ring in which the batches wait for their turn. Batches come out in order, whatever the threads' timing.
///
/// A batch goes through these states, each step taken by whichever worker finds it to be done:
///   free -> planned (which samples) -> sized (every worker has asked for its row counts) -> open (memory
///   taken, within the bound of bytes) -> filled (every worker has read its part) -> handed over, its entry
///   in the ring free again.
/// The threads live as long as the ring; `restart` parks them and goes on elsewhere. Without workers, `next`
/// takes these steps for one batch.
class Ring {
 public:
  /// `maker` and `options` must outlive it.
  Ring(BatchMaker& maker, const LoaderOptions& options, const Run& from);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// The next batch; nullptr at the end of the run. Blocks. Throws what its making threw; then `restart` must
  /// follow.
  std::unique_ptr<BatchMemory> next();

  /// Blocks until nothing more can be read ahead.
  void warm_up();

  /// Drops all that was read ahead, runs `change` while no worker works, and goes on at `from`.
  void restart(const Run& from, const std::function<void()>& change);

  /// Behind what is planned, these are, before what is new.
  void add_again(const OpenTurns& turns);

  /// Adds the workers' figures and the number of ready batches to `stats`.
  void add_stats(LoaderStats& stats) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct RingEntry {
    std::unique_ptr<BatchMemory> batch;
    int sized = 0;  // parts that know their row counts
    bool has_memory = false;
    bool is_sized = false;   // `bytes` is known
    int filled = 0;          // parts that are read
    std::int64_t bytes = 0;  // that it counts as
    std::int64_t taken = 0;  // that its making has taken so far
    std::size_t failed_slot = 0;
    std::exception_ptr error;
  };
  /// What a worker is at.
  struct Task {
    const RingEntry* entry = nullptr;  // null: nothing
    Clock::time_point since = Clock::time_point::max();
    std::int64_t sized = 0;   // batches whose part of this worker is sized
    std::int64_t filled = 0;  // and those whose part is filled
    bool is_parked = false;   // until the ring goes on
  };

  void tell_slow() ROTA_REQUIRES(mutex_);
  void work(const std::stop_token& stop, int worker);
  [[nodiscard]] bool has_work(int worker) const noexcept ROTA_REQUIRES(mutex_);
  void make(int worker) ROTA_REQUIRES(mutex_);
  // Row counts are asked for one batch ahead, so that workers seldom wait for each other's.
  [[nodiscard]] bool can_size(const Task& task) const noexcept ROTA_REQUIRES(mutex_) {
    return task.sized < planned_ && task.sized <= task.filled + 1;
  }
  [[nodiscard]] bool can_plan() const noexcept ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool is_warm() const noexcept ROTA_REQUIRES(mutex_);
  void plan() ROTA_REQUIRES(mutex_);
  void size(int worker, std::int64_t number) ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool can_open() const noexcept ROTA_REQUIRES(mutex_);
  void open() ROTA_REQUIRES(mutex_);
  void fill(int worker, std::int64_t number) ROTA_REQUIRES(mutex_);
  void finish(RingEntry& entry, WorkDone& done) ROTA_REQUIRES(mutex_);
  void count(RingEntry& entry, std::int64_t bytes) ROTA_REQUIRES(mutex_) {
    bytes_ += bytes - entry.bytes;
    entry.bytes = bytes;
  }
  template <typename Work>
  void each_part(RingEntry& entry, int worker, Work work) ROTA_REQUIRES(mutex_);
  template <typename Work>
  void unlocked(RingEntry& entry, const std::size_t& slot, Work work) ROTA_REQUIRES(mutex_);
  RingEntry& entry(std::int64_t number) noexcept ROTA_REQUIRES(mutex_) {
    return entries_[static_cast<std::size_t>(number) % entries_.size()];
  }
  [[nodiscard]] const RingEntry& entry(std::int64_t number) const noexcept ROTA_REQUIRES(mutex_) {
    return entries_[static_cast<std::size_t>(number) % entries_.size()];
  }
  [[nodiscard]] int workers() const noexcept { return static_cast<int>(scratch_.size()); }  // or the caller

  BatchMaker& maker_;
  const LoaderOptions& options_;
  const std::int64_t max_bytes_;

  mutable Mutex mutex_;
  std::condition_variable_any worker_wakes_;  // something to plan, open or read, or to stop for
  std::condition_variable caller_wakes_;      // the head is filled, or all are parked
  std::vector<RingEntry> entries_ ROTA_GUARDED_BY(mutex_);
  std::int64_t handed_ ROTA_GUARDED_BY(mutex_) = 0;   // batches handed over: the number of the head
  std::int64_t opened_ ROTA_GUARDED_BY(mutex_) = 0;   // batches that have memory; they are opened in order
  std::int64_t planned_ ROTA_GUARDED_BY(mutex_) = 0;  // batches planned
  std::optional<std::int64_t> end_ ROTA_GUARDED_BY(mutex_);  // number of batches there are, once known
  Run drawn_;                                                // behind what is planned; of who plans
  OpenTurns again_ ROTA_GUARDED_BY(mutex_);                  // that drawn_ does not have yet
  bool is_planning_ ROTA_GUARDED_BY(mutex_) = false;
  bool is_opening_ ROTA_GUARDED_BY(mutex_) = false;
  std::int64_t bytes_ ROTA_GUARDED_BY(mutex_) = 0;  // of open batches not handed over
  // Of batches whose size was known only when they were finished: the most bytes that one took, and
  // the most samples.
  std::int64_t most_made_ ROTA_GUARDED_BY(mutex_) = 0;
  std::size_t most_samples_ ROTA_GUARDED_BY(mutex_) = 0;
  bool is_parking_ ROTA_GUARDED_BY(mutex_) = false;
  bool is_warming_ ROTA_GUARDED_BY(mutex_) = false;  // the caller waits for each step
  std::vector<Scratch> scratch_;                     // per worker, as are the next two
  std::vector<Task> tasks_ ROTA_GUARDED_BY(mutex_);
  std::vector<LoaderStats::Worker> stats_ ROTA_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace rota::internal
