#include "rota/batch.hpp"

#include <algorithm>
#include <utility>

#include "core/owned.hpp"
#include "loader/batch_memory.hpp"
#include "rota/error.hpp"

namespace rota {
namespace {

using internal::Slots;

// A list of a batch; none where it has no memory.
template <typename T>
std::span<const T> listed(const internal::BatchMemory* memory, std::vector<T> Slots::*list) noexcept {
  return memory != nullptr ? std::span<const T>(memory->*list) : std::span<const T>();
}

}  // namespace

void internal::refuse_no_batch() {
  throw Error(ErrorCode::out_of_range,
              "take the batch of a step that there is not: next() returned nothing, for the run is over");
}

Batch::Batch() noexcept = default;
Batch::Batch(std::unique_ptr<internal::BatchMemory> memory,
             std::shared_ptr<internal::BatchPool> pool) noexcept
    : memory_(std::move(memory)), pool_(std::move(pool)) {}
Batch::~Batch() {
  if (memory_) pool_->give_back(std::move(memory_));
}
Batch::Batch(Batch&& other) noexcept = default;
Batch& Batch::operator=(Batch&& other) noexcept {
  Batch taken(std::move(other));
  std::swap(memory_, taken.memory_);
  std::swap(pool_, taken.pool_);
  return *this;
}

const internal::BatchMemory& Batch::memory() const { return internal::owned(memory_, "a batch"); }

std::int64_t Batch::size() const noexcept { return std::ssize(ids()); }
std::int64_t Batch::real() const noexcept {
  return static_cast<std::int64_t>(std::ranges::count(kinds(), SlotKind::sample));
}
Position Batch::start() const { return memory().global.start; }
std::int64_t Batch::global_size() const { return memory().global.size; }
std::int64_t Batch::global_real() const {
  const internal::BatchMemory& own = memory();
  if (own.skippers == 0) return own.global.real;
  if (own.skippers == 1) return real();
  throw Error(
      ErrorCode::invalid_argument,
      "count the samples of a global batch: what other ranks skip is not known here; sum real() over ranks");
}

std::span<const SampleId> Batch::ids() const& noexcept { return listed(memory_.get(), &Slots::ids); }
std::span<const SlotKind> Batch::kinds() const& noexcept { return listed(memory_.get(), &Slots::kinds); }
std::span<const std::int64_t> Batch::epochs() const& noexcept {
  return listed(memory_.get(), &Slots::epochs);
}
std::span<const std::int32_t> Batch::datasets() const& noexcept {
  return listed(memory_.get(), &Slots::datasets);
}
std::span<const std::int64_t> Batch::slots() const& noexcept { return listed(memory_.get(), &Slots::slots); }
std::span<const Field> Batch::fields() const& noexcept {
  return memory_ ? std::span<const Field>(memory_->store.fields()) : std::span<const Field>();
}

Tensor Batch::tensor(std::size_t f) const& { return memory().store.tensor(f); }
Tensor Batch::tensor(std::string_view name) const& { return memory().store.tensor(name); }
std::span<std::byte> Batch::bytes(std::size_t f, std::int64_t i) const& { return memory().store.bytes(f, i); }

}  // namespace rota
