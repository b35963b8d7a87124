#include "rota/batch.hpp"

#include <algorithm>
#include <type_traits>

#include "core/owned.hpp"
#include "loader/batch_memory.hpp"
#include "rota/error.hpp"

namespace rota {

static_assert(std::is_nothrow_move_constructible_v<Batch>);
static_assert(std::is_nothrow_move_assignable_v<Batch>);

namespace {

using internal::BatchMemory;

// A list of a batch; none where it has no memory.
template <auto list>
auto list_of(const internal::BatchMemory* memory) noexcept {
  using List = std::remove_reference_t<decltype(memory->*list)>;
  return memory != nullptr ? std::span(memory->*list) : std::span<const typename List::value_type>();
}

}  // namespace

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

bool Batch::is_again() const { return memory().is_again(); }

std::int64_t Batch::size() const noexcept { return std::ssize(kinds()); }
std::int64_t Batch::real() const noexcept {
  return static_cast<std::int64_t>(std::ranges::count(kinds(), SlotKind::sample));
}
Position Batch::start() const { return memory().start; }
Position Batch::end() const { return memory().end; }
const BatchTimes& Batch::times() const& { return memory().times; }
std::int64_t Batch::global_size() const {
  if (!memory().is_stream) return memory().global_size;
  throw Error(ErrorCode::invalid_argument,
              "count the slots of a global batch: what other ranks have of their streams is not known here; "
              "sum size() over ranks");
}
std::int64_t Batch::global_real() const {
  const internal::BatchMemory& own = memory();
  if (own.is_stream) return global_size();
  if (own.skippers == 0) return own.global_real;
  if (own.skippers == 1) return real();
  throw Error(
      ErrorCode::invalid_argument,
      "count the samples of a global batch: what other ranks skip is not known here; sum real() over ranks");
}

std::span<const SampleId> Batch::ids() const& noexcept { return list_of<&RunSlice::ids>(memory_.get()); }
std::span<const SlotKind> Batch::kinds() const& noexcept { return list_of<&RunSlice::kinds>(memory_.get()); }
std::span<const std::int64_t> Batch::epochs() const& noexcept {
  return list_of<&RunSlice::epochs>(memory_.get());
}
std::span<const std::int32_t> Batch::datasets() const& noexcept {
  return list_of<&RunSlice::datasets>(memory_.get());
}
std::span<const std::int64_t> Batch::slots() const& noexcept {
  return list_of<&RunSlice::slots>(memory_.get());
}
std::span<const std::int64_t> Batch::micro_ends() const& noexcept {
  return list_of<&RunSlice::micro_ends>(memory_.get());
}
std::span<const std::int64_t> Batch::global_sums() const& noexcept {
  return list_of<&RunSlice::global_sums>(memory_.get());
}
BatchCosts Batch::costs() const { return memory().costs; }
std::span<const StreamId> Batch::stream_ids() const& noexcept {
  return list_of<&BatchMemory::stream_ids>(memory_.get());
}
std::span<const std::int64_t> Batch::positions() const& noexcept {
  return list_of<&BatchMemory::positions>(memory_.get());
}
std::span<const Field> Batch::fields() const& noexcept {
  return memory_ ? std::span<const Field>(memory_->store.fields()) : std::span<const Field>();
}

Tensor Batch::tensor(std::size_t f) const& { return memory().store.tensor(f); }
Tensor Batch::tensor(std::string_view name) const& { return memory().store.tensor(name); }
std::span<std::byte> Batch::bytes(std::size_t f, std::int64_t i) const& { return memory().store.bytes(f, i); }

void NextBatch::require() const {
  if (has_value()) return;
  throw Error(ErrorCode::out_of_range,
              "take the batch of a step that there is not: next() returned nothing, for the run is over");
}

namespace internal {

std::unique_ptr<BatchMemory> BatchPool::take() {
  {
    const MutexLock lock(mutex_);
    if (!unused_.empty()) {
      auto memory = std::move(unused_.back());
      unused_.pop_back();
      return memory;
    }
  }
  return std::make_unique<BatchMemory>(fields_, buffers_);
}

void BatchPool::give_back(std::unique_ptr<BatchMemory> memory) noexcept {
  memory->close();
  const MutexLock lock(mutex_);
  if (unused_.size() < capacity_) unused_.push_back(std::move(memory));
}

}  // namespace internal
}  // namespace rota
