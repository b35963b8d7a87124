#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "loader/batch_maker.hpp"

namespace rota::internal {

/// Worker threads that make batches ahead of the caller, each its fixed part of every batch, and a bounded
/// ring in which the batches wait for their turn. Batches come out in order, whatever the threads' timing.
///
/// A batch goes through these states, each step taken by whichever worker finds it to be done:
///   free -> planned (which samples) -> sized (every worker has asked for its row counts) -> open (memory
///   taken, within the bound of bytes) -> filled (every worker has read its part) -> handed over, its entry
///   in the ring free again.
/// The threads live as long as the ring; `restart` parks them and goes on elsewhere.
class Ring {
 public:
  Ring(BatchMaker& maker, const LoaderOptions& options, const Position& at);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// The next batch; nullptr at the end of the run. Blocks. Throws what its making threw; then `restart` must
  /// follow.
  std::unique_ptr<BatchMemory> next();

  /// Blocks until nothing more can be read ahead.
  void warm_up();

  /// Drops all that was read ahead, runs `change` while no worker works, and goes on at `at`.
  void restart(const Position& at, const std::function<void()>& change);

  /// Adds the workers' figures and the number of ready batches to `stats`.
  void add_stats(LoaderStats& stats) const;

 private:
  struct RingEntry {
    std::unique_ptr<BatchMemory> batch;
    int sized = 0;  // parts that know their row counts
    bool has_memory = false;
    bool is_sized = false;  // `bytes` is known
    int filled = 0;         // parts that are read
    std::int64_t bytes = 0;
    std::size_t failed_slot = 0;
    std::exception_ptr error;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work(const std::stop_token& stop, int worker);
  bool make(Lock& lock, const std::stop_token& stop, int worker, std::int64_t& sized);
  [[nodiscard]] bool can_plan() const noexcept;
  [[nodiscard]] bool is_warm() const noexcept;
  void plan(Lock& lock);
  void size(Lock& lock, int worker, std::int64_t number);
  [[nodiscard]] bool can_open() const noexcept;
  void open(Lock& lock);
  void fill(Lock& lock, int worker, std::int64_t number);
  void finish(Lock& lock, RingEntry& entry);
  template <typename Work>
  void each_part(Lock& lock, RingEntry& entry, int worker, Work work);
  template <typename Work>
  void unlocked(Lock& lock, RingEntry& entry, const std::size_t& slot, Work work);
  RingEntry& entry(std::int64_t number) noexcept {
    return entries_[static_cast<std::size_t>(number) % entries_.size()];
  }
  [[nodiscard]] const RingEntry& entry(std::int64_t number) const noexcept {
    return entries_[static_cast<std::size_t>(number) % entries_.size()];
  }
  [[nodiscard]] int workers() const noexcept { return static_cast<int>(scratch_.size()); }

  BatchMaker& maker_;
  const std::int64_t max_bytes_;

  mutable std::mutex mutex_;
  std::condition_variable_any worker_wakes_;  // something to plan, open or read, or to stop for
  std::condition_variable caller_wakes_;      // the head is filled, or all are parked
  std::vector<RingEntry> entries_;
  std::int64_t handed_ = 0;          // batches handed over: the number of the head
  std::int64_t opened_ = 0;          // batches that have memory; they are opened in order
  std::int64_t planned_ = 0;         // batches planned
  std::optional<std::int64_t> end_;  // number of batches there are, once known
  Position plan_at_;
  bool is_planning_ = false;
  bool is_opening_ = false;
  std::int64_t bytes_ = 0;      // of open batches not handed over
  std::int64_t most_made_ = 0;  // bytes of the largest batch whose size was known only when it was finished
  bool is_parking_ = false;
  bool is_warming_ = false;  // the caller waits for each step
  std::int64_t runs_ = 0;    // how often the workers were let loose
  int parked_ = 0;
  std::vector<Scratch> scratch_;  // per worker
  std::vector<WorkerStats> stats_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace rota::internal
