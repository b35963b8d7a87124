#include "rota/batch.hpp"

#include <algorithm>
#include <utility>

#include "loader/batch_memory.hpp"

namespace rota {

Batch::Batch() noexcept = default;
Batch::Batch(std::unique_ptr<internal::BatchMemory> memory,
             std::shared_ptr<internal::BatchPool> pool) noexcept
    : memory_(std::move(memory)), pool_(std::move(pool)) {}
Batch::~Batch() {
  if (memory_) pool_->give_back(std::move(memory_));
}
Batch::Batch(Batch&& other) noexcept = default;
Batch& Batch::operator=(Batch&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(pool_, other.pool_);
  return *this;
}

std::int64_t Batch::size() const noexcept {
  return memory_ ? static_cast<std::int64_t>(memory_->ids.size()) : 0;
}
std::span<const SampleId> Batch::ids() const noexcept {
  return memory_ ? std::span<const SampleId>(memory_->ids) : std::span<const SampleId>();
}
std::span<const Mark> Batch::marks() const noexcept {
  return memory_ ? std::span<const Mark>(memory_->marks) : std::span<const Mark>();
}
std::span<const std::int64_t> Batch::epochs() const noexcept {
  return memory_ ? std::span<const std::int64_t>(memory_->epochs) : std::span<const std::int64_t>();
}
std::span<const std::int32_t> Batch::datasets() const noexcept {
  return memory_ ? std::span<const std::int32_t>(memory_->datasets) : std::span<const std::int32_t>();
}
std::int64_t Batch::real() const noexcept {
  return static_cast<std::int64_t>(std::ranges::count(marks(), Mark::real));
}
const Position& Batch::start() const noexcept { return memory_->global.start; }
std::int64_t Batch::global_size() const noexcept { return memory_->global.size; }
std::int64_t Batch::global_real() const noexcept { return memory_->global.real; }
std::span<const std::int64_t> Batch::slots() const noexcept {
  return memory_ ? std::span<const std::int64_t>(memory_->slots) : std::span<const std::int64_t>();
}
std::span<const Field> Batch::fields() const noexcept {
  return memory_ ? std::span<const Field>(memory_->store.fields()) : std::span<const Field>();
}

Tensor Batch::tensor(std::size_t f) const { return memory_->store.tensor(f); }
Tensor Batch::tensor(std::string_view name) const { return memory_->store.tensor(name); }

std::span<std::byte> Batch::bytes(std::size_t f, std::int64_t i) const noexcept {
  return memory_->store.view().bytes(f, static_cast<std::size_t>(i));
}

}  // namespace rota
