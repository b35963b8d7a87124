#include "loader/field_store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/failure.hpp"
#include "source/field_check.hpp"

namespace rota::internal {

FieldStore::FieldStore(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers)
    : fields_(std::move(fields)),
      offsets_(fields_->size()),
      buffers_(std::move(buffers)),
      ragged_(fields_->size()),
      memory_(fields_->size()) {
  for (std::size_t f = 0; f < fields_->size(); ++f) {
    memory_[f].row_bytes = (*fields_)[f].row_bytes();
  }
}

void FieldStore::resize(std::size_t samples) {
  static_cast<void>(fixed_bytes(*fields_, samples));  // they fit
  samples_ = samples;
  for (std::size_t f = 0; f < offsets_.size(); ++f) {
    if ((*fields_)[f].ragged) offsets_[f].assign(samples + 1, 0);
  }
}

void FieldStore::sum_rows() {
  for (std::size_t f = 0; f < offsets_.size(); ++f) sum_rows(f);
}

void FieldStore::sum_rows(std::size_t f) {
  for (std::size_t i = 1; i < offsets_[f].size(); ++i) {
    check_row_count((*fields_)[f], offsets_[f][i], offsets_[f][i - 1]);
    offsets_[f][i] += offsets_[f][i - 1];
  }
}

std::size_t FieldStore::bytes(std::size_t f) const noexcept {
  const std::size_t rows = offsets_[f].empty() ? samples_ : static_cast<std::size_t>(offsets_[f][samples_]);
  return rows * memory_[f].row_bytes;
}

std::size_t FieldStore::bytes() const noexcept {
  std::size_t sum = 0;
  for (std::size_t f = 0; f < memory_.size(); ++f) sum += bytes(f);
  return sum;
}

void FieldStore::reserve(Buffer& buffer, std::size_t bytes) {
  if (bytes <= buffer.bytes()) return;
  buffers_->give_back(std::exchange(buffer, {}));
  buffer = buffers_->take(bytes);
}

void FieldStore::open() {
  const auto aligned = [&](std::size_t f) {
    return (bytes(f) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  };
  std::size_t all = 0;
  for (std::size_t f = 0; f < memory_.size(); ++f) all += (*fields_)[f].ragged ? 0 : aligned(f);
  reserve(fixed_, all);
  std::byte* data = fixed_.data();
  for (std::size_t f = 0; f < memory_.size(); ++f) {
    if ((*fields_)[f].ragged) continue;
    memory_[f].data = data;
    if (data != nullptr) data += aligned(f);
  }
  open_ragged();
}

void FieldStore::open_ragged() {
  for (std::size_t f = 0; f < memory_.size(); ++f) {
    if ((*fields_)[f].ragged) open_ragged(f);
  }
}

void FieldStore::open_ragged(std::size_t f) {
  reserve(ragged_[f], bytes(f));
  memory_[f].data = ragged_[f].data();
  memory_[f].offsets = offsets_[f].data();
}

void FieldStore::open_rows(std::size_t f, std::span<const std::int64_t> rows) {
  require_ragged(fields(), f);
  if (rows.size() != samples_) {
    throw failure(
        ErrorCode::callback,
        "resize field \"{}\" of a batch: {} row counts were given for {} samples; give one for each",
        fields()[f].name, rows.size(), samples_);
  }
  std::int64_t sum = 0;
  for (const std::int64_t count : rows) {
    check_row_count(fields()[f], count, sum);
    sum += count;
  }
  const std::size_t bytes = static_cast<std::size_t>(sum) * memory_[f].row_bytes;
  Buffer larger = bytes > ragged_[f].bytes() ? buffers_->take(bytes) : Buffer();
  std::ranges::copy(rows, this->rows(f).begin());  // from here on nothing fails
  sum_rows(f);
  if (larger.data() != nullptr) adopt(f, std::move(larger));
  open_ragged(f);
}

void FieldStore::close() noexcept {
  buffers_->give_back(std::exchange(fixed_, {}));
  for (Buffer& buffer : ragged_) buffers_->give_back(std::exchange(buffer, {}));
  for (auto& memory : memory_) memory.data = nullptr;
}

std::span<std::byte> FieldStore::bytes(std::size_t f, std::int64_t i) const {
  if (f >= memory_.size()) refuse_field(f, memory_.size());
  if (i < 0 || static_cast<std::size_t>(i) >= samples_) {
    throw failure(ErrorCode::out_of_range, "view sample {} of a batch: it has {}, numbered from 0 on", i,
                  samples_);
  }
  return view().bytes(f, static_cast<std::size_t>(i));
}

Tensor FieldStore::tensor(std::size_t f) const {
  if (f >= memory_.size()) refuse_field(f, memory_.size());
  return {.field = &(*fields_)[f], .bytes = view().all(f), .offsets = offsets_[f]};
}

Tensor FieldStore::tensor(std::string_view name) const {
  std::string names;
  for (std::size_t f = 0; f < fields().size(); ++f) {
    if (fields()[f].name == name) return tensor(f);
    names += fmt::format("{}\"{}\"", f == 0 ? "" : ", ", fields()[f].name);
  }
  throw failure(ErrorCode::not_found, "find field \"{}\" in a batch: it has {}", name, names);
}

}  // namespace rota::internal
