#include "rota/stream.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/failure.hpp"
#include "core/scarce.hpp"
#include "source/field_check.hpp"

namespace rota {

StreamSample::StreamSample(std::span<const Field> fields) {
  internal::check_fields(fields, "make a sample", "it", ErrorCode::invalid_argument);
  slots_.reserve(fields.size());
  for (const Field& field : fields) {
    FieldSlot& slot = slots_.emplace_back();
    slot.name = field.name;
    slot.dtype = field.dtype;
    slot.row_bytes = field.row_bytes();
    slot.ragged = field.ragged;
    if (field.ragged) continue;
    slot.rows = 1;
    slot.reserve(slot.row_bytes);
  }
}

// From here on in memory of its own.
void StreamSample::FieldSlot::reserve(std::size_t bytes) {
  constexpr std::size_t kKept = 4096;  // however few are used
  // What a long sample took is not kept for short ones.
  if (bytes > capacity || (capacity > kKept && bytes < capacity / 4)) {
    const std::size_t room = ragged ? bytes + bytes / 4 : bytes;
    internal::with_memory([&] { own.reset(new std::byte[room]); },  // not make_unique, which would clear it
                          [&] { return fmt::format("take {} bytes for a field of a sample", room); });
    capacity = room;
  }
  data = own.get();
}

std::size_t StreamSample::total_bytes() const noexcept {
  std::size_t sum = 0;
  for (const FieldSlot& slot : slots_) sum += slot.used();
  return sum;
}

std::span<std::byte> StreamSample::resize(std::size_t f, std::int64_t rows) {
  const FieldSlot& field = slot(f);
  if (rows < 0 || rows > internal::most_rows(field.row_bytes) || (!field.ragged && rows != 1)) {
    throw internal::failure(ErrorCode::callback, "give field \"{}\" of a sample {} rows of {} bytes: {}",
                            field.name, rows, field.row_bytes,
                            field.ragged ? "that cannot be" : "it is of fixed shape, and has 1");
  }
  if (field.ragged) slots_[f].reserve(static_cast<std::size_t>(rows) * field.row_bytes);
  slots_[f].rows = rows;
  return bytes(f);
}

void StreamSample::set(std::size_t f, std::span<const std::byte> bytes) {
  const FieldSlot& field = slot(f);
  const bool is_whole = field.row_bytes == 0 ? bytes.empty() : bytes.size() % field.row_bytes == 0;
  if (!is_whole || (!field.ragged && bytes.size() != field.row_bytes)) {
    throw internal::failure(ErrorCode::callback,
                            "set field \"{}\" of a sample to {} bytes: it has {} of {} bytes", field.name,
                            bytes.size(), field.ragged ? "rows" : "one row", field.row_bytes);
  }
  if (field.ragged) {
    resize(f, field.row_bytes == 0 ? 0 : static_cast<std::int64_t>(bytes.size() / field.row_bytes));
  }
  if (!bytes.empty()) std::memcpy(slots_[f].data, bytes.data(), bytes.size());
}

void StreamSample::copy(const StreamSample& other) {
  id_ = other.id_;
  for (std::size_t f = 0; f < slots_.size(); ++f) {
    set(f, other.bytes(f));
    if (slots_[f].row_bytes == 0) resize(f, other.rows(f));  // bytes do not say how many
  }
}

std::unique_ptr<const StreamSource> StreamSource::for_worker(const WorkerInfo& /*worker*/) const {
  return nullptr;
}

std::optional<std::int64_t> StreamSource::remaining(ShardId /*shard*/, const StreamCursor& /*cursor*/) const {
  return std::nullopt;
}

Fingerprint StreamSource::fingerprint() const {
  FingerprintBuilder digest;
  digest.add("stream").add(shards()).add(cursor_numbers());
  for (const Field& field : fields()) {
    digest.add(field.name).add(to_string(field.dtype)).add(field.shape).add(std::int64_t{field.ragged});
  }
  return digest.finish();
}

std::string StreamSource::where(ShardId /*shard*/) const { return {}; }

StreamSample& StreamOutputs::add() {
  if (size_ == static_cast<std::int64_t>(samples_.size())) {
    samples_.push_back(std::make_unique<StreamSample>(fields_));
  }
  StreamSample& sample = (*this)[size_++];
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (fields_[f].ragged) sample.resize(f, 0);
  }
  return sample;
}

}  // namespace rota
