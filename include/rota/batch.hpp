#pragma once

// One rank's slice of a global batch, as handed to the training loop. Next: checkpoint_directory.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/source.hpp"
#include "rota/types.hpp"

namespace rota {

namespace internal {
class BatchPool;
struct BatchMemory;
}  // namespace internal

/// Where batch memory comes from: pinned or registered memory, say. Both are called from any thread; memory
/// is asked for seldom, for it is reused. `allocate` returns at least `bytes` bytes aligned to 64, or throws;
/// null, and an address that is not aligned, is Error{callback}. Both functions empty mean operator new.
struct Allocator {
  std::function<void*(std::size_t bytes)> allocate = {};
  std::function<void(void* memory, std::size_t bytes)> release = {};

  /// Throws Error{invalid_argument} where one of them is empty, and the other is not.
  void validate() const;
};

/// One field of a batch: [size, field.shape...] where fixed. A ragged one is the rows of all samples one
/// after the other, [rows, field.shape...], and sample i has rows [offsets[i], offsets[i + 1]).
struct Tensor {
  const Field* field = nullptr;
  std::span<std::byte> bytes = {};
  std::span<const std::int64_t> offsets = {};  ///< size + 1 row numbers; empty where fixed

  /// The elements. T must be the field's type: Error{mismatch} where it is not. std::byte always fits, and
  /// std::uint16_t for the bits of float16 and bfloat16, of which `to_floats` in dtype.hpp makes floats.
  template <typename T>
  [[nodiscard]] std::span<T> as() const {
    if (field != nullptr && !internal::is_viewable_as<T>(field->dtype)) [[unlikely]] {
      internal::refuse_view(field->name, field->dtype, kDTypeOf<T>);
    }
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

namespace internal {
/// Throws Error{out_of_range}: there is no batch.
[[noreturn]] void refuse_no_batch();
}  // namespace internal

/// What `next` of a loader returns: a batch, or nothing after the last one. A std::optional, but for a
/// temporary one, which hands its batch out by value: what would be left of it is a view of nothing. `value`,
/// and `*` of a temporary one, throw Error{out_of_range} where there is no batch.
template <typename T>
class NextBatch : public std::optional<T> {
 public:
  using std::optional<T>::optional;

  [[nodiscard]] T& operator*() & noexcept { return std::optional<T>::operator*(); }
  [[nodiscard]] const T& operator*() const& noexcept { return std::optional<T>::operator*(); }
  [[nodiscard]] T operator*() && { return std::move(value()); }
  [[nodiscard]] T& value() & {
    if (!this->has_value()) internal::refuse_no_batch();
    return **this;
  }
  [[nodiscard]] const T& value() const& {
    if (!this->has_value()) internal::refuse_no_batch();
    return **this;
  }
  [[nodiscard]] T value() && { return std::move(value()); }
  [[nodiscard]] T* operator->() & noexcept { return &**this; }
  [[nodiscard]] const T* operator->() const& noexcept { return &**this; }
  /// Keep the batch in a variable, or take a number from it as in `(*loader.next()).size()`.
  const T* operator->() const&& = delete;
};

/// This rank's slice of one global batch: tensors and ids. Move-only. Its memory goes back to the loader when
/// it dies, and may outlive the loader. *One thread.*
///
/// Spans and tensors are views that end with it: keep the batch in a variable. Those of a temporary batch do
/// not compile. One that is default-made or was moved from has size 0 and no fields; what else is asked of it
/// throws Error{invalid_argument}.
class Batch {
 public:
  Batch() noexcept;
  ~Batch();
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;

  /// Slots of this rank; may be 0 in an epoch's last batch, or where there are more ranks than samples in a
  /// batch.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// Slots of SlotKind::sample, of this rank. Summed over ranks: what a mean over the global batch divides
  /// by.
  [[nodiscard]] std::int64_t real() const noexcept;

  /// Where the global batch starts: its epoch, the samples consumed in it before this batch, its step.
  [[nodiscard]] Position start() const;
  /// Slots of the global batch, over all ranks, padding included.
  [[nodiscard]] std::int64_t global_size() const;
  /// Samples in the global batch, skipped ones included. Every rank computes it locally. To divide a loss,
  /// sum `real()` over ranks instead.
  [[nodiscard]] std::int64_t global_real() const;

  /// The sample in each slot, in canonical order: [size]. Of a Mixture, numbered as `join` does; see
  /// Loader::first_id.
  [[nodiscard]] std::span<const SampleId> ids() const& noexcept;
  /// What each slot holds: [size]. The mask of a loss: only SlotKind::sample is to be trained on.
  [[nodiscard]] std::span<const SlotKind> kinds() const& noexcept;
  /// The epoch of each slot: [size]. All the same but where Tail::carry crosses into the next epoch,
  /// and of a Mixture, whose datasets have their own.
  [[nodiscard]] std::span<const std::int64_t> epochs() const& noexcept;
  /// The dataset of each slot: [size]. All 0 but of a Mixture.
  [[nodiscard]] std::span<const std::int32_t> datasets() const& noexcept;
  /// Which slot of the global batch each of these is, ascending: [size]. Under Split::by_sample, consecutive.
  [[nodiscard]] std::span<const std::int64_t> slots() const& noexcept;

  [[nodiscard]] std::span<const Field> fields() const& noexcept;
  /// Field number `f`, or the field called `name`. Throws Error{out_of_range} unless 0 <= f <
  /// fields().size(), Error{not_found} for a name that is not there, naming those that are.
  [[nodiscard]] Tensor tensor(std::size_t f) const&;
  [[nodiscard]] Tensor tensor(std::string_view name) const&;
  /// Sample i's bytes of field f. Throws Error{out_of_range} for a field or sample that there is not.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f, std::int64_t i) const&;

  void ids() const&& = delete;
  void kinds() const&& = delete;
  void epochs() const&& = delete;
  void datasets() const&& = delete;
  void slots() const&& = delete;
  void fields() const&& = delete;
  void tensor(std::size_t f) const&& = delete;
  void tensor(std::string_view name) const&& = delete;
  void bytes(std::size_t f, std::int64_t i) const&& = delete;

 private:
  friend class internal::BatchPool;
  Batch(std::unique_ptr<internal::BatchMemory> memory, std::shared_ptr<internal::BatchPool> pool) noexcept;

  [[nodiscard]] const internal::BatchMemory& memory() const;

  std::unique_ptr<internal::BatchMemory> memory_;
  std::shared_ptr<internal::BatchPool> pool_;
};

}  // namespace rota
