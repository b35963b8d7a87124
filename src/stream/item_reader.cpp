#include "stream/item_reader.hpp"

#include <utility>

namespace rota::internal {

void PendingItems::add(std::int64_t epoch, std::int64_t number, ByteSpan record) {
  items_.push_back({.epoch = epoch, .number = number, .begin = bytes_.size(), .size = record.size()});
  bytes_.insert(bytes_.end(), record.begin(), record.end());
}

ItemReader::ItemReader(const StreamSource& source, const RecordLayout& layout, World world,
                       std::int64_t epoch, SourceProgress place, PendingItems pending)
    : source_(&source),
      layout_(&layout),
      epoch_(epoch),
      place_(std::move(place)),
      pending_(std::move(pending)),
      reading_(layout.fields()),
      instances_(source, world, 1) {
  SampleMemory::own(reading_.sample);
  instances_.assign({ShardId{0}});
}

bool ItemReader::read(std::vector<std::byte>& out) {
  if (next_pending_ < pending_.items().size()) {
    const PendingItems::Item& item = pending_.items()[next_pending_];
    if (item.epoch != epoch_) return false;
    const ByteSpan record = pending_.bytes(item);
    out.insert(out.end(), record.begin(), record.end());
    if (++next_pending_ == pending_.items().size()) {
      pending_ = {};
      next_pending_ = 0;
    }
    return true;
  }
  // Where items were pending, it may be in a later epoch already.
  if (place_.epoch > epoch_ || place_.shard.is_done) return false;
  const std::size_t size = out.size();
  try {
    return read_source(out);
  } catch (...) {
    reader_.reset();
    out.resize(size);
    throw;
  }
}

bool ItemReader::read_source(std::vector<std::byte>& out) {
  ShardProgress& place = place_.shard;
  const StreamSource& source = instances_.source(0);
  if (!reader_) reader_.emplace(*source_, epoch_, place);
  if (!reader_->read(source, reading_)) {
    place.end();
    return false;
  }
  layout_->append(reading_.sample, out);
  place.advance(reading_.has_cursor ? &reading_.cursor : nullptr);
  return true;
}

void ItemReader::begin_next_epoch() {
  ++epoch_;
  if (place_.epoch >= epoch_) return;
  place_ = {.epoch = epoch_, .shard = {}};
  reader_.reset();
}

void ItemReader::close() noexcept {
  reader_.reset();
  instances_.end(0);
}

void ItemReader::take_cursor() {
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

void ItemReader::add_pending(PendingItems& out) const {
  for (std::size_t i = next_pending_; i < pending_.items().size(); ++i) {
    const PendingItems::Item& item = pending_.items()[i];
    out.add(item.epoch, item.number, pending_.bytes(item));
  }
}

}  // namespace rota::internal
