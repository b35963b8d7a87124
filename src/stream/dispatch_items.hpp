#pragma once

// What a dispatch sends: which rank gets which items, and an item as bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/batch_memory.hpp"
#include "loader/ledger.hpp"
#include "rota/stream.hpp"
#include "rota/types.hpp"

namespace rota::internal {

/// Which rank gets which items of a dispatch: arithmetic, the same on all ranks.
struct DispatchPlan {
  std::int64_t shards = 1;
  Split split = Split::by_sample;
  int ranks = 1;
  std::size_t most_bytes = std::size_t{1} << 31;  // of a message to another rank, itself not included

  /// An item of a batch and the rank that gets it.
  struct Slot {
    std::int64_t item = 0;  ///< its number in the batch, from 0 on, in the order of the source
    int rank = 0;
  };

  [[nodiscard]] ShardId shard_of(std::int64_t item) const noexcept { return {item % shards}; }
  [[nodiscard]] std::int64_t position_of(std::int64_t item) const noexcept { return item / shards; }
  /// How many of an epoch's first `items` items are of this shard.
  [[nodiscard]] std::int64_t count_of(ShardId shard, std::int64_t items) const noexcept {
    return items / shards + (shard.value < items % shards ? 1 : 0);
  }
  /// The batch of items first, ..., first + count - 1 of an epoch in its canonical order, that of (shard,
  /// position): [count].
  [[nodiscard]] std::vector<Slot> slots(std::int64_t first, std::int64_t count) const;
};

using ByteSpan = std::span<const std::byte>;

/// Item `number` of an epoch, as bytes that a RecordLayout makes.
[[nodiscard]] inline KeptSample kept(std::int64_t epoch, std::int64_t number, ByteSpan record) {
  return {{{number}, epoch}, {reinterpret_cast<const char*>(record.data()), record.size()}};
}

/// A sample as bytes: the row counts of its ragged fields, int64 each, then the bytes of all fields, in
/// declared order. *Immutable.*
class RecordLayout {
 public:
  explicit RecordLayout(std::vector<Field> fields);

  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }
  /// Appends the record of `sample`.
  void append(const StreamSample& sample, std::vector<std::byte>& out) const;
  /// The record that `bytes` begin with. Throws Error{corrupt} where they are too few.
  [[nodiscard]] ByteSpan first(ByteSpan bytes) const;
  /// Fills `batch` with the tensors of such records.
  void decode(std::span<const ByteSpan> records, BatchMemory& batch) const;

 private:
  std::vector<Field> fields_;
  std::size_t ragged_ = 0;       // fields
  std::size_t fixed_bytes_ = 0;  // of the fields that are not
};

}  // namespace rota::internal
