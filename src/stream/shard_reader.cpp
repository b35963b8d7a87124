#include "stream/shard_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "stream/stream_facts.hpp"

namespace rota::internal {
namespace {

// What reading a sample costs beside its bytes, in bytes.
constexpr std::size_t kSampleCost = 256;

constexpr std::size_t kShort = 4096;  // bytes that are kept, to be used again

void move_bytes(std::span<const std::byte> from, std::span<std::byte> to) noexcept {
  if (!from.empty() && from.data() != to.data()) std::memmove(to.data(), from.data(), from.size());
}

std::size_t bytes_of(const StreamCursor& cursor) noexcept {
  return cursor.numbers.size() * sizeof(std::int64_t) + cursor.blob.size();
}

// For each sample, where moving three times would be felt.
void exchange(StreamCursor& a, StreamCursor& b) noexcept {
  a.numbers.swap(b.numbers);
  a.blob.swap(b.blob);
}

void forget_blob(StreamCursor& cursor) noexcept {
  if (cursor.blob.capacity() > kShort) std::string().swap(cursor.blob);  // an assignment would keep it
}

}  // namespace

void ShardProgress::advance(StreamCursor* behind) noexcept {
  ++position;
  ++skip;
  if (behind != nullptr) take(*behind);
}

void ShardProgress::take(StreamCursor& here) noexcept {
  exchange(cursor, here);
  forget_blob(here);
  skip = 0;
}

// Nothing will be read there.
void ShardProgress::end() noexcept {
  is_done = true;
  StreamCursor none;
  exchange(cursor, none);
  skip = position;
}

void SampleMemory::lend(StreamSample& sample, const BatchView& batch, std::size_t i) noexcept {
  for (std::size_t f = 0; f < sample.slots_.size(); ++f) {
    if (!sample.slots_[f].ragged) sample.slots_[f].data = batch.bytes(f, i).data();
  }
}

void SampleMemory::own(StreamSample& sample) {
  for (auto& slot : sample.slots_) {
    if (!slot.ragged) slot.reserve(slot.row_bytes);
  }
}

void SampleMemory::forget(StreamSample& sample) noexcept {
  for (auto& slot : sample.slots_) {
    if (slot.capacity <= kShort) continue;
    slot.own.reset();
    slot.capacity = 0;
    slot.data = nullptr;
  }
}

std::int64_t Reading::extra_bytes(std::span<const Field> fields) const noexcept {
  std::size_t sum = has_cursor ? bytes_of(cursor) : 0;
  for (std::size_t f = 0; f < fields.size(); ++f) sum += fields[f].ragged ? sample.bytes(f).size() : 0;
  return static_cast<std::int64_t>(sum);
}

void Reading::copy_fixed(BatchMemory& batch, std::size_t i) const noexcept {
  batch.stream_ids[i] = sample.id();
  batch.positions[i] = position;
  for (std::size_t f = 0; f < sample.size(); ++f) {
    if (batch.store.fields()[f].ragged) {
      batch.store.rows(f)[i] = sample.rows(f);
    } else {
      move_bytes(sample.bytes(f), batch.store.view().bytes(f, i));
    }
  }
}

void Reading::copy_ragged(BatchMemory& batch, std::size_t i) const noexcept {
  for (std::size_t f = 0; f < sample.size(); ++f) {
    if (batch.store.fields()[f].ragged) move_bytes(sample.bytes(f), batch.store.view().bytes(f, i));
  }
}

bool ShardReader::read(const StreamSource& source, Reading& out) {
  if (is_over_) return false;
  try {
    if (!stream_) open(source, out);
    if (read_on(out)) return true;
  } catch (...) {
    rethrow();
  }
  is_over_ = true;
  stream_.reset();
  return false;
}

// `out` is memory for the samples that are passed over.
void ShardReader::open(const StreamSource& source, Reading& out) {
  stream_ = ask_stream(source, at_.shard, epoch_, at_.cursor);
  if (!at_.cursor.is_start()) {
    stream_->cursor(out.cursor);
    if (out.cursor.numbers != at_.cursor.numbers) {
      throw failure(ErrorCode::callback,
                    "open it behind cursor {}: its stream says that it is at {}; what `open` returns must "
                    "begin where its cursor says",
                    at_.cursor.numbers, out.cursor.numbers);
    }
    forget_blob(out.cursor);
  }
  for (std::int64_t i = 0; i < at_.skip; ++i) {
    if (stream_->next(out.sample)) continue;
    throw failure(ErrorCode::mismatch, "go on behind sample {}: there are {} now; the data has changed since",
                  at_.position, at_.position - at_.skip + i);
  }
}

bool ShardReader::read_on(Reading& out) {
  if (!stream_->next(out.sample)) return false;
  StreamId id = out.sample.id();
  id.shard = at_.shard;
  out.sample.set_id(id);
  out.position = at_.position++;
  since_cursor_ += out.sample.total_bytes() + kSampleCost;
  out.has_cursor = since_cursor_ >= cursor_bytes_;
  if (out.has_cursor) ask_cursor(out.cursor);
  return true;
}

void ShardReader::take_cursor(const StreamSource& source, Reading& out) {
  try {
    if (!stream_) open(source, out);
    ask_cursor(out.cursor);
  } catch (...) {
    rethrow();
  }
}

void ShardReader::ask_cursor(StreamCursor& out) {
  stream_->cursor(out);
  if (std::ssize(out.numbers) != source_->cursor_numbers()) {
    throw failure(ErrorCode::callback, "ask where it is: the cursor has {} numbers; the source says {}",
                  out.numbers.size(), source_->cursor_numbers());
  }
  since_cursor_ = 0;
  cursor_bytes_ = bytes_of(out);
}

// The current exception as an Error that says where it happened.
void ShardReader::rethrow() const {
  const std::string place = source_->where(at_.shard);
  const std::string what =
      fmt::format("read shard {}{}, epoch {}, behind its {} samples so far", at_.shard.value,
                  place.empty() ? "" : fmt::format(" ({})", place), epoch_, at_.position);
  throw caught().as_error(what);
}

}  // namespace rota::internal
