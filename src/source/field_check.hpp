#pragma once

// What fields, their rows and batches of them may be, so that no product or sum of sizes overflows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/error.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Fields in words, for messages, as in: "x" int64 [2], "text" uint8 [*].
std::string describe(const std::vector<Field>& fields);

/// The most bytes of a sample, of a tensor, and of all fixed tensors of a batch.
inline constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 50;
inline constexpr std::size_t kMaxFields = 4096;

/// Throws Error{code} unless there are at most kMaxFields, each of a type that there is and of extents of 0
/// or more, no two of one name, and one row of each takes at most kMaxTensorBytes, all together. `whose` says
/// who gave them.
void check_fields(std::span<const Field> fields, std::string_view task, std::string_view whose,
                  ErrorCode code = ErrorCode::callback);

/// How many rows of so many bytes a tensor may have.
[[nodiscard]] constexpr std::int64_t most_rows(std::size_t row_bytes) noexcept {
  return kMaxTensorBytes / (row_bytes == 0 ? 1 : static_cast<std::int64_t>(row_bytes));
}
/// Throws Error{callback} for a number of rows that ragged field `field` cannot have, Error{invalid_argument}
/// where a batch has `before` of them already, and cannot have these, too.
void check_row_count(const Field& field, std::int64_t rows, std::int64_t before = 0);

/// Throws Error{callback} for a field that has no row counts, Error{out_of_range} for one that there is not.
void require_ragged(std::span<const Field> fields, std::size_t f);

/// The rows that samples of a ragged field take, each from the one before on.
std::vector<std::int64_t> offsets_of(const BatchView& out, std::size_t f, std::size_t row_bytes);

/// Bytes of the fixed fields of `samples` samples. Throws Error{invalid_argument} beyond kMaxTensorBytes.
std::int64_t fixed_bytes(std::span<const Field> fields, std::size_t samples);

}  // namespace rota::internal
