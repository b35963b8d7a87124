#include "loader/made_rows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "source/field_check.hpp"

namespace rota::internal {

MadeRows::MadeRows(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers)
    : fields_(std::move(fields)), buffers_(std::move(buffers)), rows_(fields_->size()) {}

void MadeRows::drop_sample() noexcept {
  for (FieldRows& field : rows_) {
    field.end = field.begin;
    field.rows = 0;
  }
}

std::span<std::byte> MadeRows::resize(std::size_t f, std::int64_t rows) {
  require_ragged(*fields_, f);
  check_row_count((*fields_)[f], rows);
  FieldRows& field = rows_[f];
  const std::size_t bytes = static_cast<std::size_t>(rows) * (*fields_)[f].row_bytes();
  if (bytes > field.buffer.bytes() - field.begin) grow(field, field.begin + bytes);
  field.most = std::max(field.most, field.begin + bytes);
  field.end = field.begin + bytes;
  field.rows = rows;
  return {field.buffer.data() + field.begin, bytes};
}

void MadeRows::grow(FieldRows& field, std::size_t bytes) {
  Buffer larger = buffers_->take(std::max({bytes, field.likely, 2 * field.buffer.bytes()}));
  if (field.end > 0) std::memcpy(larger.data(), field.buffer.data(), field.end);
  buffers_->give_back(std::exchange(field.buffer, std::move(larger)));
}

std::size_t MadeRows::end_sample(FieldStore& store, std::size_t slot) noexcept {
  std::size_t bytes = 0;
  for (std::size_t f = 0; f < rows_.size(); ++f) {
    if (!(*fields_)[f].ragged) continue;
    store.rows(f)[slot] = rows_[f].rows;
    bytes += rows_[f].end - rows_[f].begin;
    rows_[f].begin = rows_[f].end;
    rows_[f].rows = 0;
  }
  return bytes;
}

std::size_t MadeRows::bytes() const noexcept {
  std::size_t sum = 0;
  for (const FieldRows& field : rows_) sum += field.buffer.bytes() / 5 * 4;
  return sum;
}

bool MadeRows::is_whole(std::size_t samples) const noexcept {
  return parts_.size() == 1 && parts_[0].begin == 0 && parts_[0].end == samples;
}

void MadeRows::move_into(FieldStore& store) noexcept {
  for (std::size_t f = 0; f < rows_.size(); ++f) {
    Buffer& buffer = rows_[f].buffer;
    if (buffer.bytes() <= most_buffer_bytes(rows_[f].end)) store.adopt(f, std::exchange(buffer, {}));
  }
}

void MadeRows::copy_into(FieldStore& store) const noexcept {
  for (std::size_t f = 0; f < rows_.size(); ++f) {
    const std::byte* from = rows_[f].buffer.data();
    for (const SlotRange part : parts_) {
      if (from == nullptr) break;
      const std::span<std::byte> to = store.view().part(part.begin, part.end - part.begin).all(f);
      if (to.empty()) continue;
      std::memcpy(to.data(), from, to.size());
      from += to.size();
    }
  }
}

void MadeRows::close() noexcept {
  parts_.clear();
  for (FieldRows& field : rows_) {
    buffers_->give_back(std::exchange(field.buffer, {}));
    const std::size_t likely = field.most > 0 ? field.most : field.likely;
    field = {};
    field.likely = likely;
  }
}

}  // namespace rota::internal
