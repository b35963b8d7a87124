#include "stream/bundler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "rota/error.hpp"
#include "values/scarce.hpp"

namespace rota::internal {
namespace {

// A parcel of `size` bytes as far as its head.
std::vector<std::byte> new_parcel(const ParcelHead& head, std::size_t size) {
  std::vector<std::byte> parcel;
  parcel.reserve(size);
  const auto bytes = std::as_bytes(std::span(&head, 1));
  parcel.insert(parcel.end(), bytes.begin(), bytes.end());
  return parcel;
}

}  // namespace

Bundler::Bundler(const StreamSource& source, const RecordLayout& layout, const DispatchPlan& plan,
                 const StreamLoaderOptions& options, BundlerStart start)
    : layout_(&layout),
      plan_(plan),
      era_(start.era),
      epochs_(options.epochs),
      batch_size_(static_cast<std::size_t>(options.global_batch_size)),
      max_batches_(options.workers > 0 ? options.read_ahead_batches : 1),
      max_bytes_(options.read_ahead_bytes),
      reader_(source, layout, {.rank = 0, .size = plan.ranks}, start.epoch, std::move(start.source),
              std::move(start.pending)),
      epoch_(start.epoch),
      first_(start.first),
      is_over_(epoch_ >= epochs_) {
  if (options.workers == 0) return;
  thread_ =
      start_thread("start the reader of a dispatch", [this](const std::stop_token& stop) { work(stop); });
}

// ---- the caller's side ----

std::optional<Bundle> Bundler::poll() {
  const Lock lock(mutex_);
  if (ready_.empty()) return std::nullopt;
  Bundle bundle = std::move(ready_.front());
  ready_.pop_front();
  return bundle;
}

Bundle Bundler::wait() {
  Lock lock(mutex_);
  while (!thread_.joinable() && ready_.empty()) make(lock);
  caller_wakes_.wait(lock, [&] { return !ready_.empty(); });
  Bundle bundle = std::move(ready_.front());
  ready_.pop_front();
  return bundle;
}

void Bundler::drop(const Bundle& bundle) {
  const Lock lock(mutex_);
  --undelivered_;
  bytes_ -= bundle.bytes;
  worker_wakes_.notify_all();
}

void Bundler::retry() {
  const Lock lock(mutex_);
  has_failed_ = false;
  worker_wakes_.notify_all();
}

void Bundler::hold() {
  Lock lock(mutex_);
  is_held_ = true;
  if (park_error_) is_parked_ = false;  // it is tried again
  if (!thread_.joinable()) park(lock);
  worker_wakes_.notify_all();
  caller_wakes_.wait(lock, [&] { return is_parked_; });
  if (park_error_) std::rethrow_exception(park_error_);
}

void Bundler::go_on() {
  const Lock lock(mutex_);
  is_held_ = false;
  is_parked_ = false;
  worker_wakes_.notify_all();
}

// Nothing else touches any of it while it is held.
SourcePlace Bundler::add_pending(PendingItems& out) const {
  for (const Bundle& bundle : ready_) add_items(bundle, out);
  for (std::int64_t i = 0; i < std::ssize(open_ends_); ++i) out.add(epoch_, first_ + i, open_record(i));
  reader_.add_pending(out);
  return reader_.place();
}

void Bundler::add_items(const Bundle& bundle, PendingItems& out) const {
  if (!bundle.is_batch()) return;
  std::vector<ByteSpan> rests;
  for (const Parcel& parcel : bundle.parcels) rests.push_back(records_of(parcel));
  for (const DispatchPlan::Slot& slot : plan_.slots(bundle.head.first, bundle.head.count)) {
    ByteSpan& rest = rests[static_cast<std::size_t>(slot.rank)];
    const ByteSpan record = layout_->first(rest);
    rest = rest.subspan(record.size());
    out.add(bundle.head.epoch, bundle.head.first + slot.item, record);
  }
}

void Bundler::add_stats(LoaderStats& stats) const {
  const Lock lock(mutex_);
  stats.workers.push_back(stats_);
  stats.ready_batches += std::ranges::count_if(ready_, &Bundle::is_batch);
}

// ---- the reading thread's side ----

void Bundler::work(const std::stop_token& stop) {
  Lock lock(mutex_);
  const auto has_work = [this] { return can_read() || (is_held_ && !is_parked_); };
  while (worker_wakes_.wait(lock, stop, has_work) && !stop.stop_requested()) {
    is_held_ ? park(lock) : make(lock);
  }
  lock.unlock();
  reader_.close();
}

// The end of an epoch takes no room.
bool Bundler::can_read() const noexcept {
  if (is_held_ || has_failed_ || is_over_) return false;
  if (has_ended_ || undelivered_ == 0) return true;
  return undelivered_ < max_batches_ && bytes_ + open_bytes_ < max_bytes_;
}

// Reads an item, or ties a bundle.
void Bundler::make(Lock& lock) {
  lock.unlock();
  const auto start = std::chrono::steady_clock::now();
  std::optional<Bundle> bundle;
  try {
    bundle = advance();
  } catch (...) {
    bundle = empty_bundle(FeedHead::Kind::failed);
    bundle->error = std::current_exception();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  lock.lock();
  open_bytes_ = std::ssize(open_);
  stats_.samples = read_.samples;
  stats_.bytes = read_.bytes;
  stats_.read_seconds += seconds.count();
  if (!bundle) return;
  ++undelivered_;
  bytes_ += bundle->bytes;
  has_failed_ = bundle->error != nullptr;
  ready_.push_back(*std::move(bundle));
  caller_wakes_.notify_all();
}

void Bundler::park(Lock& lock) {
  lock.unlock();
  std::exception_ptr error;
  try {
    reader_.take_cursor();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  park_error_ = error;
  is_parked_ = is_held_;  // it may have been let go meanwhile
  caller_wakes_.notify_all();
}

std::optional<Bundle> Bundler::advance() {
  if (!has_ended_ && !is_full()) read();
  if (is_full() || (has_ended_ && !open_ends_.empty())) return tie();
  if (!has_ended_) return std::nullopt;
  Bundle bundle = empty_bundle(FeedHead::Kind::epoch_end);
  end_epoch();
  return bundle;
}

ByteSpan Bundler::open_record(std::int64_t item) const noexcept {
  const auto i = static_cast<std::size_t>(item);
  const std::size_t begin = i == 0 ? 0 : open_ends_[i - 1];
  return ByteSpan(open_).subspan(begin, open_ends_[i] - begin);
}

bool Bundler::is_full() const noexcept { return open_ends_.size() == batch_size_; }

void Bundler::read() {
  const std::size_t begin = open_.size();
  open_ends_.push_back(begin);
  try {
    has_ended_ = !reader_.read(open_);
  } catch (...) {
    open_ends_.pop_back();
    throw;
  }
  if (has_ended_) return open_ends_.pop_back();
  open_ends_.back() = open_.size();
  ++read_.samples;
  read_.bytes += static_cast<std::int64_t>(open_.size() - begin);
}

// All items of the next bundle, each with those of its rank. Changes nothing where it throws.
Bundle Bundler::tie() {
  const std::int64_t count = std::ssize(open_ends_);
  const std::vector<DispatchPlan::Slot> slots = plan_.slots(first_, count);
  Bundle bundle{.head = head(FeedHead::Kind::batch, count), .bytes = std::ssize(open_)};
  std::vector<std::size_t> sizes(static_cast<std::size_t>(plan_.ranks), sizeof(ParcelHead));
  for (const auto& slot : slots) sizes[static_cast<std::size_t>(slot.rank)] += open_record(slot.item).size();
  std::vector<std::vector<std::byte>> parcels;
  for (const std::size_t size : sizes) {
    if (!parcels.empty()) require_message(size);
    parcels.push_back(new_parcel(bundle.head, size));
  }
  for (const auto& slot : slots) {
    const ByteSpan bytes = open_record(slot.item);
    auto& parcel = parcels[static_cast<std::size_t>(slot.rank)];
    parcel.insert(parcel.end(), bytes.begin(), bytes.end());
  }
  for (auto& parcel : parcels) {
    bundle.parcels.push_back(std::make_shared<const std::vector<std::byte>>(std::move(parcel)));
  }
  first_ += count;
  open_.clear();
  open_ends_.clear();
  return bundle;
}

void Bundler::require_message(std::size_t bytes) const {
  if (bytes < plan_.most_bytes) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("dispatch items {} to {} of epoch {}: a rank's share of them is {} bytes, and a "
                          "message holds less than {}; make batches smaller, or items",
                          first_, first_ + std::ssize(open_ends_) - 1, epoch_, bytes, plan_.most_bytes));
}

ParcelHead Bundler::head(FeedHead::Kind kind, std::int64_t count) const noexcept {
  return {
      .era = era_, .kind = static_cast<std::int64_t>(kind), .epoch = epoch_, .first = first_, .count = count};
}

Bundle Bundler::empty_bundle(FeedHead::Kind kind) const {
  Bundle bundle{.head = head(kind, 0)};
  const auto parcel = std::make_shared<const std::vector<std::byte>>(new_parcel(bundle.head, 0));
  bundle.parcels.assign(static_cast<std::size_t>(plan_.ranks), parcel);
  return bundle;
}

void Bundler::end_epoch() {
  is_over_ = first_ == 0 || epoch_ + 1 >= epochs_;
  has_ended_ = false;
  ++epoch_;
  first_ = 0;
  reader_.begin_next_epoch();
}

}  // namespace rota::internal
