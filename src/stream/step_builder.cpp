#include "stream/step_builder.hpp"

#include <algorithm>
#include <utility>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/scarce.hpp"

namespace rota::internal {

StepBuilder::StepBuilder(const StreamSource& source, const RecordLayout& layout, const DispatchPlan& plan,
                         const StreamLoaderOptions& options, DispatchStart start)
    : source_(&source),
      layout_(&layout),
      plan_(plan),
      generation_(start.generation),
      epochs_(options.epochs),
      batch_size_(static_cast<std::size_t>(options.global_batch_size)),
      max_batches_(options.workers > 0 ? options.read_ahead_batches : 1),
      max_bytes_(options.read_ahead_bytes),
      place_(std::move(start.source)),
      pending_(std::move(start.pending)),
      reading_(layout.fields()),
      instances_(source, {.rank = 0, .size = plan.ranks}, 1),
      memory_(static_cast<std::size_t>(plan.ranks)),
      epoch_(start.epoch),
      first_(start.delivered),
      is_over_(epoch_ >= epochs_) {
  instances_.assign({ShardId{0}});
  if (options.workers == 0) return;
  thread_ =
      start_thread("start the reader of a dispatch", [this](const std::stop_token& stop) { work(stop); });
}

// ---- the caller's side ----

std::optional<StepMessages> StepBuilder::poll() {
  const MutexLock lock(mutex_);
  if (ready_.empty()) return std::nullopt;
  StepMessages messages = std::move(ready_.front());
  ready_.pop_front();
  return messages;
}

StepMessages StepBuilder::wait() {
  {
    const MutexLock lock(mutex_);
    while (!thread_.joinable() && ready_.empty()) make();
    while (ready_.empty()) mutex_.wait(caller_wakes_, Wait::here());
  }
  return *poll();
}

void StepBuilder::drop(const StepMessages& messages) {
  const MutexLock lock(mutex_);
  --undelivered_;
  bytes_ -= messages.bytes;
  is_told_ = messages.error != nullptr;
  worker_wakes_.notify_all();
}

void StepBuilder::pause() {
  const MutexLock lock(mutex_);
  is_paused_ = true;
  if (park_error_) is_parked_ = false;  // it is tried again
  if (!thread_.joinable()) park();
  worker_wakes_.notify_all();
  while (!is_parked_) mutex_.wait(caller_wakes_, Wait::here());
  if (park_error_) std::rethrow_exception(park_error_);
}

void StepBuilder::resume() {
  const MutexLock lock(mutex_);
  if (!is_paused_ && !is_told_) return;
  if (std::exchange(is_told_, false)) has_failed_ = false;
  is_paused_ = false;
  is_parked_ = false;
  worker_wakes_.notify_all();
}

// Nothing else touches any of it while it is paused.
SourceProgress StepBuilder::add_pending(KeptSamples& out) const {
  for (const StepMessages& messages : ready_) add_items(messages, out);
  for (std::int64_t i = 0; i < std::ssize(open_ends_); ++i)
    out.push_back(kept(epoch_, first_ + i, open_record(i)));
  out.insert(out.end(), pending_.begin() + static_cast<std::ptrdiff_t>(next_pending_), pending_.end());
  return place_;
}

void StepBuilder::add_items(const StepMessages& messages, KeptSamples& out) const {
  if (!messages.is_batch()) return;
  std::vector<ByteSpan> rests;
  for (const RankMessage& message : messages.by_rank) rests.push_back(records_of(message));
  for (const DispatchPlan::Slot& slot : plan_.slots(messages.head.first, messages.head.count)) {
    ByteSpan& rest = rests[static_cast<std::size_t>(slot.rank)];
    const ByteSpan record = layout_->first(rest);
    rest = rest.subspan(record.size());
    out.push_back(kept(messages.head.epoch, messages.head.first + slot.item, record));
  }
}

void StepBuilder::add_stats(LoaderStats& stats) const {
  const MutexLock lock(mutex_);
  stats.workers.push_back(stats_);
  stats.ready_batches += std::ranges::count_if(ready_, &StepMessages::is_batch);
}

// ---- the reading thread's side ----

void StepBuilder::work(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const auto has_work = [this]() ROTA_REQUIRES(mutex_) { return can_read() || (is_paused_ && !is_parked_); };
  while (worker_wakes_.wait(mutex_, stop, has_work) && !stop.stop_requested()) {
    is_paused_ ? park() : make();
  }
  const MutexUnlock unlocked(mutex_);
  reader_.reset();
  instances_.end(0);
}

// The end of an epoch takes no room.
bool StepBuilder::can_read() const noexcept {
  if (is_paused_ || has_failed_ || is_over_) return false;
  if (has_ended_ || undelivered_ == 0) return true;
  return undelivered_ < max_batches_ && bytes_ + open_bytes_ < max_bytes_;
}

// Reads an item, or closes a step.
void StepBuilder::make() {
  WorkDone done;
  std::optional<StepMessages> messages;
  {
    const MutexUnlock unlocked(mutex_);
    done.begin_read();
    if (const auto error = thrown_by([&] { messages = advance(done); })) {
      messages = empty_step(FeedHead::Kind::failed);
      messages->error = error;
    }
    done.end_read();
  }
  open_bytes_ = std::ssize(open_);
  done.add_to(stats_);
  if (!messages) return;
  ++undelivered_;
  bytes_ += messages->bytes;
  has_failed_ = messages->error != nullptr;
  ready_.push_back(*std::move(messages));
  caller_wakes_.notify_all();
}

void StepBuilder::park() {
  park_error_ = thrown_unlocked(mutex_, [&] { take_cursor(); });
  is_parked_ = is_paused_;  // it may have been let go meanwhile
  caller_wakes_.notify_all();
}

std::optional<StepMessages> StepBuilder::advance(WorkDone& done) {
  if (!has_ended_ && !is_full()) read(done);
  if (is_full() || (has_ended_ && !open_ends_.empty())) return close_step();
  if (!has_ended_) return std::nullopt;
  StepMessages messages = empty_step(FeedHead::Kind::epoch_end);
  end_epoch();
  return messages;
}

ByteSpan StepBuilder::open_record(std::int64_t item) const noexcept {
  const auto i = static_cast<std::size_t>(item);
  const std::size_t begin = i == 0 ? 0 : open_ends_[i - 1];
  return ByteSpan(open_).subspan(begin, open_ends_[i] - begin);
}

bool StepBuilder::is_full() const noexcept { return open_ends_.size() == batch_size_; }

void StepBuilder::read(WorkDone& done) {
  const std::size_t begin = open_.size();
  open_ends_.push_back(begin);
  try {
    has_ended_ = !read_item();
  } catch (...) {
    reader_.reset();  // it is opened anew behind what was read
    open_.resize(begin);
    open_ends_.pop_back();
    throw;
  }
  if (has_ended_) return open_ends_.pop_back();
  open_ends_.back() = open_.size();
  ++done.samples;
  done.bytes += static_cast<std::int64_t>(open_.size() - begin);
}

// Appends the record of the epoch's next item; false at its end.
bool StepBuilder::read_item() {
  if (next_pending_ == pending_.size()) return read_source();
  const KeptSample& item = pending_[next_pending_];
  if (item.name.epoch != epoch_) return false;
  const ByteSpan record = item.bytes();
  open_.insert(open_.end(), record.begin(), record.end());
  if (++next_pending_ == pending_.size()) {
    pending_ = {};
    next_pending_ = 0;
  }
  return true;
}

bool StepBuilder::read_source() {
  ShardProgress& place = place_.shard;
  // Where items were pending, it may be in a later epoch already.
  if (place_.epoch > epoch_ || place.is_done) return false;
  const StreamSource& source = instances_.source(0);
  if (!reader_) reader_.emplace(*source_, epoch_, place);
  if (!reader_->read(source, reading_)) {
    place.end();
    return false;
  }
  layout_->append(reading_.sample, open_);
  place.advance(reading_.has_cursor ? &reading_.cursor : nullptr);
  return true;
}

// Takes the source's cursor behind the last item, so that no item need be read again. Throws what the source
// throws; also where it has failed before, and cannot be opened anew behind what was read.
void StepBuilder::take_cursor() {
  ShardProgress& place = place_.shard;
  if (place.is_done || place.skip == 0) return;
  const StreamSource& source = instances_.source(0);
  const bool was_open = reader_.has_value();
  if (!was_open) reader_.emplace(*source_, place_.epoch, place);
  try {
    reader_->take_cursor(source, reading_);
  } catch (...) {
    if (!was_open) reader_.reset();
    throw;
  }
  place.take(reading_.cursor);
}

// All items of the next step, each with those of its rank. Changes nothing where it throws.
StepMessages StepBuilder::close_step() {
  const std::int64_t count = std::ssize(open_ends_);
  const std::vector<DispatchPlan::Slot> slots = plan_.slots(first_, count);
  StepMessages step{.head = head(FeedHead::Kind::batch, count), .bytes = std::ssize(open_)};
  std::vector<std::size_t> sizes(static_cast<std::size_t>(plan_.ranks), sizeof(MessageHead));
  for (const auto& slot : slots) sizes[static_cast<std::size_t>(slot.rank)] += open_record(slot.item).size();
  std::vector<std::span<std::byte>> rests;  // of the messages, still to be written
  for (const std::size_t size : sizes) {
    if (!rests.empty()) require_message(size);
    const auto message = memory_.take(size);
    store(*message, 0, step.head);
    rests.push_back(std::span(*message).subspan(sizeof(MessageHead)));
    step.by_rank.push_back(message);
  }
  for (const auto& slot : slots) {
    const ByteSpan bytes = open_record(slot.item);
    auto& rest = rests[static_cast<std::size_t>(slot.rank)];
    std::copy(bytes.begin(), bytes.end(), rest.begin());  // GCC 12 has std::ranges copy bytes one by one
    rest = rest.subspan(bytes.size());
  }
  first_ += count;
  open_.clear();
  open_ends_.clear();
  return step;
}

void StepBuilder::require_message(std::size_t bytes) const {
  if (bytes < plan_.most_bytes) return;
  throw failure(ErrorCode::out_of_range,
                "dispatch items {} to {} of epoch {}: a rank's share of them is {} bytes, and a message "
                "holds less than {}; make batches smaller, or items",
                first_, first_ + std::ssize(open_ends_) - 1, epoch_, bytes, plan_.most_bytes);
}

MessageHead StepBuilder::head(FeedHead::Kind kind, std::int64_t count) const noexcept {
  return {.generation = generation_, .kind = kind, .epoch = epoch_, .first = first_, .count = count};
}

StepMessages StepBuilder::empty_step(FeedHead::Kind kind) {
  StepMessages messages{.head = head(kind, 0)};
  const auto message = memory_.take(sizeof(MessageHead));
  store(*message, 0, messages.head);
  messages.by_rank.assign(static_cast<std::size_t>(plan_.ranks), message);
  return messages;
}

void StepBuilder::end_epoch() {
  is_over_ = first_ == 0 || epoch_ + 1 >= epochs_;
  has_ended_ = false;
  ++epoch_;
  first_ = 0;
  if (place_.epoch >= epoch_) return;
  place_ = {.epoch = epoch_, .shard = {}};
  reader_.reset();
}

}  // namespace rota::internal
