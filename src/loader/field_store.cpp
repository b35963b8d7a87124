#include "loader/field_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rota/error.hpp"
#include "source/field_check.hpp"

namespace rota::internal {

FieldStore::FieldStore(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers)
    : fields_(std::move(fields)),
      offsets_(fields_->size()),
      buffers_(std::move(buffers)),
      memory_(fields_->size()) {
  for (std::size_t f = 0; f < fields_->size(); ++f) {
    has_ragged_ = has_ragged_ || (*fields_)[f].ragged;
    memory_[f].row_bytes = (*fields_)[f].row_bytes();
  }
}

void FieldStore::resize(std::size_t samples) {
  static_cast<void>(fixed_bytes(*fields_, samples));  // they fit
  samples_ = samples;
  for (std::size_t f = 0; f < offsets_.size(); ++f) {
    if (!(*fields_)[f].ragged) continue;
    offsets_[f].resize(samples + 1);
    offsets_[f][0] = 0;
  }
}

void FieldStore::sum_rows() {
  for (std::size_t f = 0; f < offsets_.size(); ++f) {
    for (std::size_t i = 1; i < offsets_[f].size(); ++i) {
      check_row_count((*fields_)[f], offsets_[f][i], offsets_[f][i - 1]);
      offsets_[f][i] += offsets_[f][i - 1];
    }
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

void FieldStore::open_fixed() { open(false, fixed_); }
void FieldStore::open_ragged() { open(true, ragged_); }

void FieldStore::open(bool ragged, Buffer& buffer) {
  const auto aligned = [&](std::size_t f) {
    return (bytes(f) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  };
  std::size_t all = 0;
  for (std::size_t f = 0; f < memory_.size(); ++f) all += (*fields_)[f].ragged == ragged ? aligned(f) : 0;
  if (all > buffer.bytes()) {
    buffers_->give_back(std::exchange(buffer, {}));
    buffer = buffers_->take(all);
  }
  std::byte* data = buffer.data();
  for (std::size_t f = 0; f < memory_.size(); ++f) {
    if ((*fields_)[f].ragged != ragged) continue;
    memory_[f].data = data;
    memory_[f].offsets = ragged ? offsets_[f].data() : nullptr;
    if (data != nullptr) data += aligned(f);
  }
}

void FieldStore::close() noexcept {
  buffers_->give_back(std::exchange(fixed_, {}));
  buffers_->give_back(std::exchange(ragged_, {}));
  for (auto& memory : memory_) memory.data = nullptr;
}

std::span<std::byte> FieldStore::bytes(std::size_t f, std::int64_t i) const {
  if (f >= memory_.size()) refuse_field(f, memory_.size());
  if (i < 0 || static_cast<std::size_t>(i) >= samples_) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("view sample {} of a batch: it has {}, numbered from 0 on", i, samples_));
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
  throw Error(ErrorCode::not_found, fmt::format("find field \"{}\" in a batch: it has {}", name, names));
}

}  // namespace rota::internal
