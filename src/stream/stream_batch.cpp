#include "stream/stream_batch.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

#include "core/owned.hpp"
#include "source/field_check.hpp"

namespace rota {

static_assert(std::is_nothrow_move_constructible_v<StreamBatch>);
static_assert(std::is_nothrow_move_assignable_v<StreamBatch>);

namespace internal {

void StreamBatchMemory::open(std::size_t samples) {
  resize(samples);
  store.open();
  is_lent.assign(samples, false);
  kept_bytes = fixed_bytes(store.fields(), samples);
}

void StreamBatchMemory::resize(std::size_t samples) {
  ids.resize(samples);
  positions.resize(samples);
  advances.resize(samples);
  ended.clear();
  store.resize(samples);
}

void StreamBatchMemory::set(std::size_t i, std::size_t shard, Reading& reading) noexcept {
  ids[i] = reading.sample.id();
  positions[i] = reading.position;
  kept_bytes += reading.extra_bytes(store.fields());
  advances[i].shard = shard;
  advances[i].has_cursor = reading.has_cursor;
  if (reading.has_cursor) exchange(advances[i].cursor, reading.cursor);
  forget_blob(reading.cursor);
  for (std::size_t f = 0; f < store.fields().size(); ++f) {
    const std::span<const std::byte> bytes = reading.sample.bytes(f);
    if (store.fields()[f].ragged) {
      store.rows(f)[i] = reading.sample.rows(f);
    } else if (std::byte* const slot = store.view().bytes(f, i).data(); slot != bytes.data()) {
      if (!bytes.empty()) std::memmove(slot, bytes.data(), bytes.size());
    }
  }
}

void StreamBatchMemory::finish() {
  store.sum_rows();
  store.open_ragged();
}

void StreamBatchMemory::copy_ragged(std::size_t i, const StreamSample& sample) const noexcept {
  for (std::size_t f = 0; f < store.fields().size(); ++f) {
    const auto bytes = sample.bytes(f);
    if (!store.fields()[f].ragged || bytes.empty()) continue;
    std::memcpy(store.view().bytes(f, i).data(), bytes.data(), bytes.size());
  }
}

}  // namespace internal

StreamBatch::StreamBatch() noexcept = default;
StreamBatch::StreamBatch(std::unique_ptr<internal::StreamBatchMemory> memory,
                         std::shared_ptr<internal::StreamBatchPool> pool) noexcept
    : memory_(std::move(memory)), pool_(std::move(pool)) {}
StreamBatch::~StreamBatch() {
  if (memory_) pool_->give_back(std::move(memory_));
}
StreamBatch::StreamBatch(StreamBatch&& other) noexcept = default;
StreamBatch& StreamBatch::operator=(StreamBatch&& other) noexcept {
  StreamBatch taken(std::move(other));
  std::swap(memory_, taken.memory_);
  std::swap(pool_, taken.pool_);
  return *this;
}

const internal::StreamBatchMemory& StreamBatch::memory() const {
  return internal::owned(memory_, "a batch of a stream");
}

std::int64_t StreamBatch::size() const noexcept { return std::ssize(ids()); }
StreamPosition StreamBatch::start() const { return memory().start; }
std::span<const StreamId> StreamBatch::ids() const& noexcept {
  return memory_ ? std::span<const StreamId>(memory_->ids) : std::span<const StreamId>();
}
std::span<const std::int64_t> StreamBatch::positions() const& noexcept {
  return memory_ ? std::span<const std::int64_t>(memory_->positions) : std::span<const std::int64_t>();
}
std::span<const Field> StreamBatch::fields() const& noexcept {
  return memory_ ? std::span<const Field>(memory_->store.fields()) : std::span<const Field>();
}

Tensor StreamBatch::tensor(std::size_t f) const& { return memory().store.tensor(f); }
Tensor StreamBatch::tensor(std::string_view name) const& { return memory().store.tensor(name); }
std::span<std::byte> StreamBatch::bytes(std::size_t f, std::int64_t i) const& {
  return memory().store.bytes(f, i);
}

}  // namespace rota
