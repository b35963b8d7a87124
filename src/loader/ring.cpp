#include "loader/ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/message.hpp"
#include "core/scarce.hpp"
#include "core/wait.hpp"

namespace rota::internal {

Ring::Ring(BatchMaker& maker, const LoaderOptions& options, const Run& from)
    : maker_(maker),
      options_(options),
      max_bytes_(options.read_ahead_bytes),
      entries_(options.workers > 0 ? static_cast<std::size_t>(options.read_ahead_batches) : 1),
      drawn_(from),
      tasks_(static_cast<std::size_t>(std::max(options.workers, 1))),
      stats_(tasks_.size()) {
  for (int w = 0; w < std::ssize(tasks_); ++w) scratch_.push_back(maker.make_scratch(w));
  for (int w = 0; w < options.workers; ++w) {
    threads_.push_back(start_thread("start the workers of a loader",
                                    [this, w](const std::stop_token& stop) { work(stop, w); }));
  }
}

Ring::~Ring() {
  maker_.cut_retries_short();
  for (auto& thread : threads_) thread.request_stop();
}

// ---- the caller's side ----

std::unique_ptr<BatchMemory> Ring::next() {
  std::unique_ptr<BatchMemory> batch;
  {
    const MutexLock lock(mutex_);
    RingEntry& head = entry(handed_);
    auto due = Clock::time_point::max();
    while (threads_.empty() && handed_ != end_ && head.filled == 0) make(0);
    while (handed_ != end_ && head.filled < workers()) {
      if (options_.slow_after.count() > 0) due = std::min(due, Clock::now() + options_.slow_after);
      mutex_.wait(caller_wakes_, Wait::here(), due);
      if (Clock::now() < due) continue;
      tell_slow();
      due = Clock::time_point::max();
    }
    if (handed_ == end_) return nullptr;
    if (head.error) std::rethrow_exception(head.error);
    batch = std::move(head.batch);
    bytes_ -= head.bytes;
    head = {};
    ++handed_;
  }
  worker_wakes_.notify_all();
  return batch;
}

// Names what a worker has been at the longest.
void Ring::tell_slow() {
  const auto oldest = std::ranges::min_element(tasks_, {}, &Task::since);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - oldest->since);
  const auto worker = static_cast<std::size_t>(oldest - tasks_.begin());
  std::string what = "no worker is at a batch";
  if (oldest->entry != nullptr) {
    const BatchMemory& batch = *oldest->entry->batch;
    std::size_t samples = 0;
    for (const SlotRange part : batch.parts[worker]) samples += part.end - part.begin;
    const SampleId first = batch.ids[batch.parts[worker].front().begin];
    what =
        fmt::format("worker {} has been at {} of the {} samples of step {} for {} s, the first of which is ",
                    worker, samples, batch.ids.size(), batch.start.step, seconds.count());
    const MutexUnlock unlocked(mutex_);
    what += maker_.name(first);
  }
  const MutexUnlock unlocked(mutex_);
  const std::string message =
      fmt::format("next() waits: {}; if this stays, storage or a transform hangs", what);
  if (options_.on_slow) return options_.on_slow(message);
  tell(message);
}

void Ring::warm_up() {
  const MutexLock lock(mutex_);
  is_warming_ = true;
  while (!is_warm()) mutex_.wait(caller_wakes_, Wait::here());
  is_warming_ = false;
}

// All that is open is filled, and no other batch can be begun.
bool Ring::is_warm() const noexcept {
  if (can_plan() || can_open() || is_planning_ || is_opening_) return false;
  if (opened_ < planned_ && !entry(opened_).is_sized) return false;
  for (std::int64_t n = handed_; n < opened_; ++n) {
    if (entry(n).filled < workers()) return false;
  }
  return true;
}

void Ring::restart(const Run& from, const std::function<void()>& change) {
  const MutexLock lock(mutex_);
  is_parking_ = true;
  worker_wakes_.notify_all();
  maker_.cut_retries_short();
  while (!threads_.empty() && !std::ranges::all_of(tasks_, &Task::is_parked))
    mutex_.wait(caller_wakes_, Wait::here());
  std::vector<RingEntry> dropped(entries_.size());
  std::swap(dropped, entries_);
  {
    const MutexUnlock unlocked(mutex_);
    dropped.clear();  // gives its memory back
    change();
  }
  handed_ = opened_ = planned_ = bytes_ = 0;
  again_.clear();  // `from` has them
  std::ranges::fill(tasks_, Task{});
  end_.reset();
  drawn_ = from;
  is_parking_ = false;
  maker_.resume_retries();
  worker_wakes_.notify_all();
}

void Ring::add_again(const OpenTurns& turns) {
  {
    const MutexLock lock(mutex_);
    again_.insert(again_.end(), turns.begin(), turns.end());
    end_.reset();
  }
  worker_wakes_.notify_all();
}

void Ring::add_stats(LoaderStats& stats) const {
  const MutexLock lock(mutex_);
  stats.workers.insert(stats.workers.end(), stats_.begin(), stats_.end());
  for (std::int64_t n = handed_; n < opened_; ++n)
    stats.ready_batches += entry(n).filled == workers() ? 1 : 0;
}

// ---- the workers' side ----

void Ring::work(const std::stop_token& stop, int worker) {
  std::optional<WaitScope> scope(std::in_place, Wait(stop));
  const MutexLock lock(mutex_);
  bool& is_parked = tasks_[static_cast<std::size_t>(worker)].is_parked;
  const auto is_due = [&]() ROTA_REQUIRES(mutex_) { return is_parking_ ? !is_parked : has_work(worker); };
  while (worker_wakes_.wait(mutex_, stop, is_due) && !stop.stop_requested()) {
    is_parked = is_parking_;
    if (!is_parked) make(worker);
    if (is_parked || is_warming_) caller_wakes_.notify_all();
  }
  const MutexUnlock unlocked(mutex_);
  scope.reset();                                           // what ends a source may wait
  scratch_[static_cast<std::size_t>(worker)].own.reset();  // in the thread that it was made for
}

bool Ring::has_work(int worker) const noexcept {
  const Task& task = tasks_[static_cast<std::size_t>(worker)];
  return can_plan() || can_size(task) || can_open() || task.filled < opened_;
}

// One step, which there must be.
void Ring::make(int worker) {
  Task& task = tasks_[static_cast<std::size_t>(worker)];
  if (can_size(task)) {
    size(worker, task.sized++);
  } else if (can_open()) {
    open();
  } else if (task.filled < opened_) {
    fill(worker, task.filled);
    ++task.filled;
  } else {
    plan();
  }
}

bool Ring::can_plan() const noexcept {
  return !is_planning_ && !end_ && planned_ - handed_ < static_cast<std::int64_t>(entries_.size());
}

// Runs `work` without the lock. What it throws becomes the batch's error, unless an earlier slot has failed
// than `slot` then says.
template <typename Work>
void Ring::unlocked(RingEntry& entry, const std::size_t& slot, Work work) {
  const auto error = thrown_unlocked(mutex_, work);
  if (!error || (entry.error && entry.failed_slot <= slot)) return;
  entry.error = error;
  entry.failed_slot = slot;
}

// Does `work` without the lock for what this worker has of a batch.
template <typename Work>
void Ring::each_part(RingEntry& entry, int worker, Work work) {
  const auto w = static_cast<std::size_t>(worker);
  std::size_t slot = 0;
  Task& task = tasks_[w];
  if (!entry.batch->parts[w].empty()) {
    task.entry = &entry;
    task.since = Clock::now();
  }
  unlocked(entry, slot, [&] {
    for (const SlotRange part : entry.batch->parts[w]) {
      slot = part.begin;
      work(part, scratch_[w]);
    }
  });
  task.entry = nullptr;
  task.since = Clock::time_point::max();
}

void Ring::plan() {
  RingEntry& entry = this->entry(planned_);
  if (!again_.empty()) RunAccess::add_open(drawn_, std::exchange(again_, {}));
  is_planning_ = true;
  bool is_there = true;
  unlocked(entry, 0, [&] {
    entry.batch = maker_.take();
    is_there = maker_.plan(drawn_, *entry.batch);
    if (!is_there) entry.batch.reset();
  });
  is_planning_ = false;
  if (is_there) {
    if (!entry.error) RunAccess::pass(drawn_, *entry.batch);
    if (entry.error || !maker_.has_sizes()) {
      entry.is_sized = true;
      if (!entry.error) entry.bytes = static_cast<std::int64_t>(entry.batch->store.bytes());
    }
    ++planned_;
  } else if (again_.empty()) {
    end_ = planned_;
    caller_wakes_.notify_all();
  }
  worker_wakes_.notify_all();
}

void Ring::size(int worker, std::int64_t number) {
  RingEntry& entry = this->entry(number);
  if (entry.is_sized) return;
  BatchMemory& batch = *entry.batch;
  each_part(entry, worker, [&](SlotRange part, Scratch& scratch) { maker_.size(batch, part, scratch); });
  if (++entry.sized < workers()) return;
  if (!entry.error) unlocked(entry, 0, [&] { batch.store.sum_rows(); });
  if (!entry.error) entry.bytes = static_cast<std::int64_t>(batch.store.bytes());
  entry.is_sized = true;
  worker_wakes_.notify_all();
}

bool Ring::can_open() const noexcept {
  if (is_opening_ || opened_ == planned_) return false;
  const RingEntry& entry = this->entry(opened_);
  if (!entry.is_sized || opened_ == handed_) return entry.is_sized;
  // A size that is known only when a batch is finished must have been shown by one of as many samples.
  const bool is_known = entry.error || !maker_.has_finish() || entry.batch->ids.size() <= most_samples_;
  return is_known && bytes_ + std::max(entry.bytes, most_made_) <= max_bytes_;
}

void Ring::open() {
  RingEntry& entry = this->entry(opened_);
  is_opening_ = true;
  entry.taken = std::exchange(entry.bytes, 0);
  count(entry, std::max(entry.taken, most_made_));
  if (!entry.error) unlocked(entry, 0, [&] { entry.batch->store.open(); });
  entry.has_memory = !entry.error;
  is_opening_ = false;
  ++opened_;
  worker_wakes_.notify_all();
}

// What is left to do once all parts are filled; by the worker that filled the last.
void Ring::finish(RingEntry& entry, WorkDone& done) {
  if (!maker_.has_finish() || entry.error) return;
  const auto begun = Clock::now();
  unlocked(entry, 0, [&] { maker_.finish(entry.batch); });
  if (entry.error) return;
  const double took = seconds_since(begun);
  entry.batch->times.transform_seconds += took;
  done.times.transform_seconds += took;
  const auto bytes = static_cast<std::int64_t>(entry.batch->store.bytes());
  most_made_ = std::max({most_made_, entry.taken, bytes});
  most_samples_ = std::max(most_samples_, entry.batch->ids.size());
  count(entry, bytes);
  worker_wakes_.notify_all();
}

void Ring::fill(int worker, std::int64_t number) {
  RingEntry& entry = this->entry(number);
  WorkDone done;
  if (entry.has_memory) {  // also where another part has failed: the error of the first slot is to be found
    each_part(entry, worker,
              [&](SlotRange part, Scratch& scratch) { maker_.fill(*entry.batch, part, scratch, done); });
    done.add_to(entry.batch->times);
    entry.taken += maker_.made_bytes(*entry.batch, worker);
    if (entry.taken > entry.bytes) count(entry, entry.taken);
  }
  if (entry.filled + 1 == workers()) finish(entry, done);
  done.add_to(stats_[static_cast<std::size_t>(worker)]);
  if (++entry.filled < workers() || number != handed_) return;
  const MutexUnlock unlocked(mutex_);  // else the caller would wake only to wait for the lock
  caller_wakes_.notify_one();
}

}  // namespace rota::internal
