#pragma once

// One rank's slice of a global batch, as handed to the training loop. Next: bad_samples.hpp.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "rota/source.hpp"
#include "rota/types.hpp"

namespace rota {

namespace internal {
class BatchPool;
struct BatchMemory;
}  // namespace internal

/// Where batch memory comes from: pinned or registered memory, say. Both are called from any thread; memory
/// is asked for seldom, for it is reused. `allocate` returns at least `bytes` bytes aligned to 64, or throws.
/// Empty functions mean operator new.
struct Allocator {
  std::function<void*(std::size_t bytes)> allocate = {};
  std::function<void(void* memory, std::size_t bytes)> release = {};
};

/// One field of a batch: [size, field.shape...] where fixed. A ragged one is the rows of all samples one
/// after the other, [rows, field.shape...], and sample i has rows [offsets[i], offsets[i + 1]).
struct Tensor {
  const Field* field = nullptr;
  std::span<std::byte> bytes = {};
  std::span<const std::int64_t> offsets = {};  ///< size + 1 row numbers; empty where fixed

  /// The elements. T must be the field's type (asserted); std::byte always fits.
  template <typename T>
  [[nodiscard]] std::span<T> as() const noexcept {
    assert((std::is_same_v<T, std::byte> || kDTypeOf<T> == field->dtype));
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// This rank's slice of one global batch: tensors and ids. Move-only. Its memory goes back to the loader when
/// it dies, and may outlive the loader. *One thread.*
///
/// All that it hands out are views that end with it: keep the batch in a variable. In C++20,
/// `for (auto id : loader.next()->ids())` reads memory of a batch that is gone.
class Batch {
 public:
  Batch() noexcept;
  ~Batch();
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;

  /// Slots of this rank; may be 0 in an epoch's last batch, or where there are more ranks than samples in a
  /// batch.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// The sample in each slot, in canonical order: [size]. Of a Mixture, numbered as `join` does; see
  /// Loader::first_id.
  [[nodiscard]] std::span<const SampleId> ids() const noexcept;
  /// What each slot holds: [size]. The mask of a loss: only Mark::real is to be trained on.
  [[nodiscard]] std::span<const Mark> marks() const noexcept;
  /// Slots of Mark::real, of this rank. Summed over ranks: what a mean over the global batch divides by.
  [[nodiscard]] std::int64_t real() const noexcept;
  /// The epoch of each slot: [size]. All the same but where Tail::carry crosses into the next epoch,
  /// and of a Mixture, whose datasets have their own.
  [[nodiscard]] std::span<const std::int64_t> epochs() const noexcept;

  /// The dataset of each slot: [size]. All 0 but of a Mixture.
  [[nodiscard]] std::span<const std::int32_t> datasets() const noexcept;

  /// Where the global batch starts: its epoch, the samples consumed in it before this batch, its step.
  [[nodiscard]] const Position& start() const noexcept;
  /// Slots of the global batch, over all ranks, padding included.
  [[nodiscard]] std::int64_t global_size() const noexcept;
  /// Samples of the epoch in the global batch: the same without any exchange, for it counts skipped ones in,
  /// which other ranks may have.
  [[nodiscard]] std::int64_t global_real() const noexcept;
  /// Which slot of the global batch each of these is, ascending: [size]. Under Split::by_sample, consecutive.
  [[nodiscard]] std::span<const std::int64_t> slots() const noexcept;

  [[nodiscard]] std::span<const Field> fields() const noexcept;
  /// Field number `f`, 0 <= f < fields().size(), or the field called `name`.
  /// Throws Error{not_found} for a name that is not there, naming those that are.
  [[nodiscard]] Tensor tensor(std::size_t f) const;
  [[nodiscard]] Tensor tensor(std::string_view name) const;
  /// Sample i's bytes of field f.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f, std::int64_t i) const noexcept;

 private:
  friend class internal::BatchPool;
  Batch(std::unique_ptr<internal::BatchMemory> memory, std::shared_ptr<internal::BatchPool> pool) noexcept;

  std::unique_ptr<internal::BatchMemory> memory_;
  std::shared_ptr<internal::BatchPool> pool_;
};

}  // namespace rota
