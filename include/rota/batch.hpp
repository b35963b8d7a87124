#pragma once

// One rank's slice of a global batch, for the training loop. Next: checkpoint_directory.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rota/balance.hpp"
#include "rota/source.hpp"
#include "rota/types.hpp"

namespace rota {

namespace internal {
class BatchPool;
struct BatchMemory;
}  // namespace internal

/// The source of batch memory, such as pinned or registered memory. Both functions are called from any
/// thread, and seldom, because memory is reused. Both empty: operator new. `allocate` returns at least
/// `bytes` bytes, aligned to 64, or throws. Null and an unaligned address are Error{callback}.
struct Allocator {
  std::function<void*(std::size_t bytes)> allocate = {};
  std::function<void(void* memory, std::size_t bytes)> release = {};

  /// Throws Error{invalid_argument} where only one of them is empty.
  void validate() const;
};

/// One field of a batch. Fixed: [size, field.shape...]. Ragged: [rows, field.shape...], the rows of all
/// samples one after the other; sample i has rows [offsets[i], offsets[i + 1]).
struct Tensor {
  const Field* field = nullptr;
  std::span<std::byte> bytes = {};
  std::span<const std::int64_t> offsets = {};  ///< size + 1 row numbers; empty where fixed

  /// The elements. T must be the field's type, else Error{mismatch}. std::byte always fits. std::uint16_t
  /// views the bits of float16 and bfloat16; `to_floats` in dtype.hpp converts them.
  template <typename T>
  [[nodiscard]] std::span<T> as() const {
    if (field != nullptr && !internal::is_viewable_as<T>(field->dtype)) [[unlikely]] {
      internal::refuse_view(field->name, field->dtype, kDTypeOf<T>);
    }
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// How a batch came about. Of streams, reads and transforms are not told apart, and 0.
struct BatchTimes {
  double wait_seconds = 0;       ///< that next() waited for it
  double read_seconds = 0;       ///< of the worker that read the longest for it
  double transform_seconds = 0;  ///< of the worker that transformed the longest, and of `collate`
  /// What a worker waited for the longest, of 1 ms or more: a file, or else where the first of its samples is
  /// (Source::where).
  std::string slowest = {};
  double slowest_seconds = 0;
};

/// This rank's slice of one global batch, of a Loader or a StreamLoader: tensors and ids. Move-only. *One
/// thread.* Its memory returns to the loader when it dies. It may outlive the loader.
///
/// Spans and tensors are views that end with the batch: keep it in a variable. Views of a temporary batch do
/// not compile. A default-made or moved-from batch has size 0 and no fields; its other methods throw
/// Error{invalid_argument}.
class Batch {
 public:
  Batch() noexcept;
  ~Batch();
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;

  /// Slots of this rank. May be 0 in an epoch's last batches, or where ranks outnumber the samples of a
  /// batch.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// Slots of SlotKind::sample, of this rank. Summed over ranks, it is the divisor of a mean over the global
  /// batch.
  [[nodiscard]] std::int64_t real() const noexcept;

  /// The start of the global batch: its epoch, the samples of that epoch consumed before it, its step.
  [[nodiscard]] Position start() const;
  /// Behind it: where a run goes on that has this batch.
  [[nodiscard]] Position end() const;
  /// Whether it is of samples that were handed out before, and given up or open at a restart: no step, so
  /// that `start` and `end` are the same.
  [[nodiscard]] bool is_again() const;
  [[nodiscard]] const BatchTimes& times() const&;
  /// Slots of the global batch, over all ranks, padding included. Throws Error{invalid_argument} of streams:
  /// nobody knows it. Sum `size()` over ranks.
  [[nodiscard]] std::int64_t global_size() const;
  /// Slots of SlotKind::sample, of all ranks: a divisor for a loss, computed without the other ranks. Where
  /// bad samples are skipped in a world of several ranks, and of streams, nobody knows it: throws
  /// Error{invalid_argument}.
  /// Sum `real()` over ranks then.
  [[nodiscard]] std::int64_t global_real() const;

  /// The sample in each slot, in canonical order: [size]. Ids of a Mixture are numbered as by `join`; see
  /// Loader::first_id. Of streams none: see `stream_ids`; but for a dispatch that is settled by hand, where
  /// they are the numbers of items in their epochs.
  [[nodiscard]] std::span<const SampleId> ids() const& noexcept;
  /// The kind of each slot: [size]. A mask for the loss: train only on SlotKind::sample.
  [[nodiscard]] std::span<const SlotKind> kinds() const& noexcept;
  /// The epoch of each slot: [size]. They differ only where Tail::carry crosses into the next epoch, and in a
  /// Mixture, where each dataset has its own.
  [[nodiscard]] std::span<const std::int64_t> epochs() const& noexcept;
  /// The dataset of each slot: [size]. All 0 without a Mixture. Of streams none.
  [[nodiscard]] std::span<const std::int32_t> datasets() const& noexcept;
  /// The slot of the global batch of each of them, ascending: [size]. Consecutive under Split::by_sample;
  /// ascending in each micro-batch under Split::balanced. Of streams none.
  [[nodiscard]] std::span<const std::int64_t> slots() const& noexcept;
  /// Split::balanced: where each micro-batch ends in the batch. As many on all ranks; some may be empty, and
  /// count all the same. Else none.
  [[nodiscard]] std::span<const std::int64_t> micro_ends() const& noexcept;
  /// Split::balanced: the sum of each column of lengths over the samples of all ranks that count, as planned:
  /// a divisor for a loss, computed without the other ranks. Skipped samples are in it. Else none.
  [[nodiscard]] std::span<const std::int64_t> global_sums() const& noexcept;
  /// Of Split::balanced. Else all 0.
  [[nodiscard]] BatchCosts costs() const;
  /// Of streams, the sample in each slot: [size]. Shards take turns, so samples of different workers are
  /// interleaved.
  [[nodiscard]] std::span<const StreamId> stream_ids() const& noexcept;
  /// Of streams, the number of each sample in its shard's stream of this epoch, from 0: [size].
  [[nodiscard]] std::span<const std::int64_t> positions() const& noexcept;

  [[nodiscard]] std::span<const Field> fields() const& noexcept;
  /// Field number `f`, or the field called `name`. Throws Error{out_of_range} for a number, Error{not_found}
  /// for a name that does not exist, naming those that do.
  [[nodiscard]] Tensor tensor(std::size_t f) const&;
  [[nodiscard]] Tensor tensor(std::string_view name) const&;
  /// The bytes of field f of sample i. Throws Error{out_of_range} for an invalid field or sample.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f, std::int64_t i) const&;

  void times() const&& = delete;
  void ids() const&& = delete;
  void kinds() const&& = delete;
  void epochs() const&& = delete;
  void datasets() const&& = delete;
  void slots() const&& = delete;
  void micro_ends() const&& = delete;
  void global_sums() const&& = delete;
  void stream_ids() const&& = delete;
  void positions() const&& = delete;
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

/// The result of a loader's `next`: a batch, or nothing after the last one. It is a std::optional that is
/// checked, and that gives a temporary's batch by value, because a view would dangle. `*`, `->` and `value`
/// throw Error{out_of_range} where there is none.
class [[nodiscard]] NextBatch : public std::optional<Batch> {
 public:
  using std::optional<Batch>::optional;

  [[nodiscard]] const Batch& value() const& { return require(), std::optional<Batch>::operator*(); }
  [[nodiscard]] Batch& value() & { return require(), std::optional<Batch>::operator*(); }
  [[nodiscard]] Batch value() && { return std::move(value()); }
  [[nodiscard]] Batch& operator*() & { return value(); }
  [[nodiscard]] const Batch& operator*() const& { return value(); }
  [[nodiscard]] Batch operator*() && { return std::move(value()); }
  [[nodiscard]] Batch* operator->() & { return &value(); }
  [[nodiscard]] const Batch* operator->() const& { return &value(); }
  /// Keep the batch in a variable, or take a number from it as in `(*loader.next()).size()`.
  const Batch* operator->() const&& = delete;

 private:
  void require() const;
};

}  // namespace rota
