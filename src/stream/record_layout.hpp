#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/batch_memory.hpp"
#include "rota/stream.hpp"

namespace rota::internal {

using ByteSpan = std::span<const std::byte>;

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
