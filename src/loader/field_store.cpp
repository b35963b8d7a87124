#include "loader/field_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 50;

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : allocator_(std::move(other.allocator_)),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void Buffer::release() noexcept {
  if (data_ == nullptr) return;
  if (allocator_->release) {
    allocator_->release(data_, capacity_);
  } else {
    ::operator delete(data_, kAlignment);
  }
  data_ = nullptr;
  capacity_ = 0;
}

void Buffer::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  release();
  // Some room to grow, so that ragged batches of nearly one size do not ask again and again.
  const std::size_t capacity = (bytes + bytes / 8 + 4095) / 4096 * 4096;
  void* memory = allocator_->allocate ? allocator_->allocate(capacity) : ::operator new(capacity, kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(memory);
  capacity_ = capacity;
}

FieldStore::FieldStore(std::shared_ptr<const std::vector<Field>> fields,
                       std::shared_ptr<const Allocator> allocator)
    : fields_(std::move(fields)), offsets_(fields_->size()), memory_(fields_->size()) {
  for (std::size_t f = 0; f < fields_->size(); ++f) {
    has_ragged_ = has_ragged_ || (*fields_)[f].ragged;
    buffers_.emplace_back(allocator);
    memory_[f].row_bytes = (*fields_)[f].row_bytes();
  }
}

void FieldStore::resize(std::size_t samples) {
  samples_ = samples;
  for (std::size_t f = 0; f < offsets_.size(); ++f) {
    if (!(*fields_)[f].ragged) continue;
    offsets_[f].resize(samples + 1);
    offsets_[f][0] = 0;
  }
}

void FieldStore::sum_rows() {
  for (std::size_t f = 0; f < offsets_.size(); ++f) {
    // No tensor is larger than this, so that no sum or product of sizes overflows.
    const auto most =
        kMaxTensorBytes / static_cast<std::int64_t>(std::max<std::size_t>(memory_[f].row_bytes, 1));
    for (std::size_t i = 1; i < offsets_[f].size(); ++i) {
      const std::int64_t rows = offsets_[f][i];
      if (rows < 0 || rows > most - offsets_[f][i - 1]) {
        throw Error(ErrorCode::callback,
                    fmt::format("size field \"{}\": the source says that a sample has {} rows of "
                                "{} bytes; that cannot be",
                                (*fields_)[f].name, rows, memory_[f].row_bytes));
      }
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

void FieldStore::open() {
  for (std::size_t f = 0; f < memory_.size(); ++f) {
    buffers_[f].reserve(bytes(f));
    memory_[f].data = buffers_[f].data();
    memory_[f].offsets = offsets_[f].empty() ? nullptr : offsets_[f].data();
  }
}

Tensor FieldStore::tensor(std::size_t f) const noexcept {
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
