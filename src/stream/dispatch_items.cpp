#include "stream/dispatch_items.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bytes.hpp"
#include "core/failure.hpp"

namespace rota::internal {

std::vector<DispatchPlan::Slot> DispatchPlan::slots(std::int64_t first, std::int64_t count) const {
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(count));
  // Adds the items of the shards of items begin, ..., end - 1, the next of a shard being `shards` further on.
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t start = begin; start < end; ++start) {
      for (std::int64_t i = start; i < count; i += shards) slots.push_back({.item = i});
    }
  };
  const std::int64_t present = std::min(count, shards);
  const std::int64_t wrapped = std::min(present, shards - first % shards);  // the first one of shard 0
  add(wrapped, present);
  add(0, wrapped);
  int rank = 0;
  for (std::int64_t at = 0; at < count; ++at) {
    while (at == share(count, rank + 1, ranks)) ++rank;
    Slot& slot = slots[static_cast<std::size_t>(at)];
    slot.rank = split == Split::by_sample ? rank : static_cast<int>((first + slot.item) % shards % ranks);
  }
  return slots;
}

RecordLayout::RecordLayout(std::vector<Field> fields) : fields_(std::move(fields)) {
  for (const Field& field : fields_) {
    ragged_ += field.ragged ? 1 : 0;
    fixed_bytes_ += field.ragged ? 0 : field.row_bytes();
  }
}

void RecordLayout::append(const StreamSample& sample, std::vector<std::byte>& out) const {
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (!fields_[f].ragged) continue;
    const std::int64_t rows = sample.rows(f);
    const auto bytes = std::as_bytes(std::span(&rows, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const ByteSpan bytes = sample.bytes(f);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
}

ByteSpan RecordLayout::first(ByteSpan bytes) const {
  const std::size_t head = ragged_ * sizeof(std::int64_t);
  std::size_t size = head + fixed_bytes_;
  bool fits = size <= bytes.size();
  for (std::size_t f = 0, i = 0; f < fields_.size() && fits; ++f) {
    if (!fields_[f].ragged) continue;
    const auto rows = load<std::int64_t>(bytes, sizeof(std::int64_t) * i++);
    const std::size_t row_bytes = std::max<std::size_t>(fields_[f].row_bytes(), 1);
    fits = rows >= 0 && static_cast<std::size_t>(rows) <= (bytes.size() - size) / row_bytes;
    if (fits) size += static_cast<std::size_t>(rows) * fields_[f].row_bytes();
  }
  if (fits) return bytes.first(size);
  throw failure(ErrorCode::corrupt, "take an item out of {} bytes: they are not as long as it says",
                bytes.size());
}

void RecordLayout::decode(std::span<const ByteSpan> records, BatchMemory& batch) const {
  for (std::size_t f = 0, k = 0; f < fields_.size(); ++f) {
    if (!fields_[f].ragged) continue;
    const std::size_t at = sizeof(std::int64_t) * k++;
    for (std::size_t i = 0; i < records.size(); ++i)
      batch.store.rows(f)[i] = load<std::int64_t>(records[i], at);
  }
  if (ragged_ > 0) batch.store.sum_rows();
  batch.store.open();
  const BatchView view = batch.store.view();
  for (std::size_t i = 0; i < records.size(); ++i) {
    ByteSpan rest = records[i].subspan(ragged_ * sizeof(std::int64_t));
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const std::span<std::byte> slot = view.bytes(f, i);
      if (!slot.empty()) std::memcpy(slot.data(), rest.data(), slot.size());
      rest = rest.subspan(slot.size());
    }
  }
}

}  // namespace rota::internal
