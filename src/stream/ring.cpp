#include "stream/ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/caught.hpp"
#include "core/scarce.hpp"
#include "core/wait.hpp"
#include "loader/work_done.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

// What a worker reads at a time: that many samples, and about that many bytes.
constexpr std::size_t kRun = 64;
constexpr std::int64_t kRunBytes = std::int64_t{256} << 10;

}  // namespace

ShardRun run_from_start(const std::vector<ShardId>& shards) {
  ShardRun run;
  run.places.reserve(shards.size());
  for (const ShardId shard : shards) run.places.push_back({.shard = shard, .cursor = {}});
  return run;
}

StreamRing::StreamRing(const StreamSource& source, BatchPool& pool, const StreamLoaderOptions& options,
                       std::int64_t batch_size, RingStart start)
    : source_(source),
      pool_(pool),
      epochs_(options.epochs),
      batch_size_(static_cast<std::size_t>(batch_size)),
      max_batches_(options.workers > 0 ? static_cast<std::size_t>(options.read_ahead_batches) : 1),
      max_bytes_(options.read_ahead_bytes),
      later_(std::move(start.later)),
      epoch_(start.epoch),
      instances_(source, start.world, static_cast<std::size_t>(std::max(options.workers, 1))),
      queues_(static_cast<std::size_t>(std::max(options.workers, 1))),
      fixed_bytes_(fixed_bytes(*pool.fields(), batch_size_)),
      stats_(queues_.size()) {
  begin_epoch(std::move(start.run));
  settle();
  for (int w = 0; w < options.workers; ++w) {
    threads_.push_back(
        start_thread("start the workers of a stream loader",
                     [this, w](const std::stop_token& stop) { work(stop, static_cast<std::size_t>(w)); }));
  }
}

StreamRing::~StreamRing() {
  for (auto& thread : threads_) thread.request_stop();
}

// ---- the caller's side ----

std::optional<FeedHead> StreamRing::peek() const {
  const MutexLock lock(mutex_);
  return ready_.empty() ? std::nullopt : std::optional(head());
}

FeedHead StreamRing::head() const {
  FeedHead head = ready_.front().head;
  const auto follows = [&](const Item& item) {
    return item.batch != nullptr && item.head.epoch == head.epoch;
  };
  head.ready = std::ranges::find_if_not(ready_, follows) - ready_.begin();
  return head;
}

FeedHead StreamRing::wait() {
  const MutexLock lock(mutex_);
  while (threads_.empty() && ready_.empty()) make(0);
  while (ready_.empty()) mutex_.wait(caller_wakes_, Wait::here());
  return head();
}

std::unique_ptr<BatchMemory> StreamRing::take(ShardRun& run) {
  Item item;
  {
    const MutexLock lock(mutex_);
    item = std::move(ready_.front());
    ready_.pop_front();
  }
  if (item.error) std::rethrow_exception(item.error);
  for (const auto& ticket : item.tickets) {
    Reading& reading = ticket->reading;
    run.places[ticket->shard].advance(reading.has_cursor ? &reading.cursor : nullptr);
    run.first = (ticket->shard + 1) % run.places.size();
  }
  for (const std::size_t shard : item.ended) run.places[shard].end();
  const MutexLock lock(mutex_);
  std::ranges::move(item.tickets, std::back_inserter(unused_));
  bytes_ -= item.bytes;
  settle();
  worker_wakes_.notify_all();
  if (item.batch) item.batch->times = std::exchange(times_, {});
  return std::move(item.batch);
}

void StreamRing::add_stats(LoaderStats& stats) const {
  const MutexLock lock(mutex_);
  stats.workers.insert(stats.workers.end(), stats_.begin(), stats_.end());
  stats.ready_batches +=
      std::ranges::count_if(ready_, [](const Item& item) { return item.batch != nullptr; });
}

// ---- what is decided under the lock ----

void StreamRing::begin_epoch(ShardRun run) {
  std::vector<ShardProgress>& places = run.places;
  has_ended_.assign(places.size(), false);
  turns_.clear();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t shard = (run.first + i) % places.size();
    has_ended_[shard] = places[shard].is_done;
    if (!has_ended_[shard]) turns_.push_back(shard);
  }
  for (OpenBatch& batch : open_) batch.is_lent.assign(batch_size_, false);
  readers_.clear();
  std::vector<ShardId> shards;
  shards.reserve(places.size());
  for (const ShardProgress& place : places) shards.push_back(place.shard);
  instances_.assign(std::move(shards));
  for (ShardProgress& place : places) {
    readers_.push_back(std::make_unique<ShardReader>(source_, epoch_, std::move(place)));
  }
  is_between_ = false;
  is_over_ = epoch_ >= epochs_;
}

// Takes all steps that cost nothing. To be called after each change.
void StreamRing::settle() {
  gather();
  deal();
  finish_epochs();
}

// Deals tickets to the shards in turn, as many as there are slots in open batches.
void StreamRing::deal() {
  while (!is_over_ && !is_between_ && gathered_.size() + queued_ < open_.size() * batch_size_ &&
         !turns_.empty()) {
    const std::size_t shard = turns_.front();
    turns_.pop_front();
    if (has_ended_[shard]) continue;
    turns_.push_back(shard);
    queue_.push_back(unused_ticket());
    Ticket& ticket = *queue_.back();
    ticket.shard = shard;
    lend(ticket, gathered_.size() + queued_);
    queues_[shard % queues_.size()].push_back(&ticket);
    ++queued_;
    has_news_ = true;
  }
  while (!turns_.empty() && has_ended_[turns_.front()]) turns_.pop_front();
}

// Gives a ticket the slot that it will have if none before it turns out void, unless one that was dealt
// before another turned out void has that slot.
void StreamRing::lend(Ticket& ticket, std::size_t number) {
  OpenBatch& batch = open_[number / batch_size_];
  ticket.slot = number % batch_size_;
  ticket.lender = batch.is_lent[ticket.slot] ? nullptr : &batch;
  if (ticket.lender == nullptr) return;  // it takes memory of its own when it is read
  batch.is_lent[ticket.slot] = true;
  SampleMemory::lend(ticket.reading.sample, batch.memory->store.view(), ticket.slot);
}

// Takes what is read off the front of the queue, for the next batch.
void StreamRing::gather() {
  while (!queue_.empty() && gathered_.size() < batch_size_ && !failure_) {
    std::unique_ptr<Ticket>& front = queue_.front();
    if (!front->is_read) return;
    if (front->error) failure_ = front->error;
    if (front->reading.is_there) {
      gathered_.push_back(std::move(front));
      --queued_;
    } else {
      if (front->found_end) ended_.push_back(front->shard);
      unused_.push_back(std::move(front));
    }
    queue_.pop_front();
  }
}

bool StreamRing::is_epoch_read() const noexcept {
  return !is_between_ && !is_over_ && turns_.empty() && queue_.empty();
}

// Tells of errors and ends of epochs, once all batches before them are ready.
void StreamRing::finish_epochs() {
  if (failure_ && !is_assembling_ && !is_over_) finish(FeedHead::Kind::failed, {.error = failure_});
  while (!is_assembling_ && gathered_.empty() && !is_over_) {
    if (is_epoch_read()) {
      ended_.clear();  // all have ended
      is_between_ = true;
      finish(FeedHead::Kind::epoch_end, {});
    }
    if (!is_between_ || ready_.size() >= max_batches_) return;
    ++epoch_;
    begin_epoch(run_from_start(later_));
    deal();
  }
}

void StreamRing::finish(FeedHead::Kind kind, Item item) {
  is_over_ = is_over_ || item.error;
  item.head = {.kind = kind, .epoch = epoch_};
  ready_.push_back(std::move(item));
  caller_wakes_.notify_all();
}

bool StreamRing::can_assemble() const noexcept {
  if (is_assembling_ || failure_ || gathered_.empty()) return false;
  return gathered_.size() == batch_size_ || is_epoch_read();
}

// Beyond the bound of bytes there may be one batch.
bool StreamRing::can_open() const noexcept {
  if (is_over_ || is_between_ || is_opening_) return false;
  const std::size_t batches = open_.size() + (is_assembling_ ? 1 : 0) + ready_.size();
  return batches == 0 || (batches < max_batches_ && bytes_ + fixed_bytes_ <= max_bytes_);
}

// While enough bytes are read ahead, only what the next batch needs.
bool StreamRing::may_read(const Ticket& ticket) const noexcept {
  return bytes_ <= max_bytes_ || has_ended_[ticket.shard] || is_needed(ticket);
}

// Whether it is of the next batch, and no batch is there.
bool StreamRing::is_needed(const Ticket& ticket) const noexcept {
  if (is_assembling_ || !ready_.empty()) return false;
  std::size_t before = gathered_.size();
  for (const auto& other : queue_) {
    if (other.get() == &ticket) break;
    if (!other->is_read || other->reading.is_there) ++before;
  }
  return before < batch_size_;
}

std::unique_ptr<StreamRing::Ticket> StreamRing::unused_ticket() {
  if (unused_.empty()) return std::make_unique<Ticket>(*pool_.fields());
  auto ticket = std::move(unused_.back());
  unused_.pop_back();
  ticket->is_read = ticket->found_end = false;
  ticket->error = nullptr;
  return ticket;
}

// ---- the workers' side ----

void StreamRing::work(const std::stop_token& stop, std::size_t worker) {
  std::optional<WaitScope> scope(std::in_place, Wait(stop));
  const MutexLock lock(mutex_);
  const auto has_some = [&]() ROTA_REQUIRES(mutex_) { return has_work(worker); };
  while (worker_wakes_.wait(mutex_, stop, has_some) && !stop.stop_requested()) {
    make(worker);
  }
  scope.reset();  // what ends streams may wait
  release(worker);
}

// Ends what is the worker's own, in its thread.
void StreamRing::release(std::size_t worker) noexcept {
  for (std::size_t shard = worker; shard < readers_.size(); shard += queues_.size()) {
    auto reader = std::move(readers_[shard]);
    const MutexUnlock unlocked(mutex_);
    reader.reset();
  }
  const MutexUnlock unlocked(mutex_);
  instances_.end(worker);
}

bool StreamRing::has_work(std::size_t worker) const noexcept {
  if (can_assemble() || can_open()) return true;
  return !is_over_ && !queues_[worker].empty() && may_read(*queues_[worker].front());
}

// One piece of work, which there must be.
void StreamRing::make(std::size_t worker) {
  if (can_assemble()) {
    assemble();
  } else if (can_open()) {
    open();
  } else {
    read(worker);
  }
  settle();
  if (std::exchange(has_news_, false)) worker_wakes_.notify_all();
}

// Takes memory for another batch.
void StreamRing::open() {
  is_opening_ = true;
  bytes_ += fixed_bytes_;
  OpenBatch batch;
  const auto take_memory = [&] {
    batch.memory = pool_.take();
    batch.is_lent.resize(batch_size_);
    batch.memory->resize_streams(batch_size_);
    batch.memory->store.open();
  };
  const auto task = [&] { return fmt::format("open a batch of {} samples", batch_size_); };
  const auto error = thrown_unlocked(mutex_, [&] { with_memory(take_memory, task); });
  is_opening_ = false;
  if (error) {
    failure_ = error;
  } else {
    open_.push_back(std::move(batch));
  }
}

void StreamRing::assemble() {
  is_assembling_ = true;
  Item item{.batch = std::move(open_.front().memory),
            .tickets = std::exchange(gathered_, {}),
            .ended = std::exchange(ended_, {}),
            .bytes = fixed_bytes_};
  open_.pop_front();
  for (const auto& ticket : item.tickets) item.bytes += ticket->reading.extra_bytes(*pool_.fields());
  item.error = thrown_unlocked(mutex_, [&] { fill(*item.batch, item.tickets); });
  is_assembling_ = false;
  finish(item.error ? FeedHead::Kind::failed : FeedHead::Kind::batch, std::move(item));
}

void StreamRing::fill(BatchMemory& batch, const Tickets& tickets) {
  batch.resize_streams(tickets.size());
  for (std::size_t i = 0; i < tickets.size(); ++i) tickets[i]->reading.copy_fixed(batch, i);
  batch.store.sum_rows();
  batch.store.open_ragged();
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    tickets[i]->reading.copy_ragged(batch, i);
    SampleMemory::forget(tickets[i]->reading.sample);
  }
}

void StreamRing::read(std::size_t worker) {
  auto& queue = queues_[worker];
  std::vector<Ticket*> run;
  std::size_t needed = 0;  // of them, however many bytes there are
  const std::int64_t room = std::min(kRunBytes, max_bytes_ - bytes_);
  while (run.size() < kRun && !queue.empty() && may_read(*queue.front())) {
    run.push_back(queue.front());
    if (room < kRunBytes && needed + 1 == run.size() && is_needed(*run.back())) ++needed;
    queue.pop_front();
  }
  std::size_t taken = 0;
  WorkDone done;
  {
    const MutexUnlock unlocked(mutex_);
    done.begin_read();
    while (taken < run.size() && (done.bytes < room || taken < std::max<std::size_t>(needed, 1))) {
      Ticket& ticket = *run[taken++];
      read_one(ticket, worker);
      if (ticket.error) break;
      if (!ticket.reading.is_there) continue;
      ++done.samples;
      done.bytes += static_cast<std::int64_t>(ticket.reading.sample.total_bytes());
    }
    done.end_read();
  }
  queue.insert(queue.begin(), run.begin() + static_cast<std::ptrdiff_t>(taken), run.end());
  run.resize(taken);
  for (Ticket* const ticket : run) publish(*ticket);
  done.add_to(stats_[worker]);
  note_wait(times_, done.times.slowest, done.times.slowest_seconds);
}

void StreamRing::read_one(Ticket& ticket, std::size_t worker) {
  ticket.error = thrown_by([&] {
    ticket.reading.is_there = false;
    if (ticket.lender == nullptr) SampleMemory::own(ticket.reading.sample);
    ticket.reading.is_there = readers_[ticket.shard]->read(instances_.source(worker), ticket.reading);
  });
}

void StreamRing::publish(Ticket& ticket) {
  ticket.is_read = true;
  if (ticket.reading.is_there) {
    bytes_ += ticket.reading.extra_bytes(*pool_.fields());
    return;
  }
  --queued_;
  has_news_ = true;
  if (ticket.lender != nullptr) ticket.lender->is_lent[ticket.slot] = false;
  if (ticket.error) return;
  ticket.found_end = !has_ended_[ticket.shard];
  has_ended_[ticket.shard] = true;
}

}  // namespace rota::internal
