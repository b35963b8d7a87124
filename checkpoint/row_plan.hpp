#pragma once

// That all ranks save the same tensors, and which rank writes which rows of each.

#include <cstdint>
#include <span>
#include <vector>

#include "rota/communicator.hpp"
#include "snapshot_data.hpp"

namespace rota::checkpoint {

/// **Collective.** Throws on all ranks, naming the first difference,
/// - Error{invalid_argument} unless they all have the same `step`, the same tensors but for their rows,
///   and no blob of the job that rank 0 lacks
/// - Error{mismatch} unless Snapshot::same was told the same.
void require_same_schema(const Communicator& ranks, const SnapshotData& snapshot, std::int64_t step);

/// What a rank tells the others of its rows of a tensor.
struct RowSummary {
  std::int64_t first = 0;   ///< of its first range
  std::int64_t count = 0;   ///< rows in all
  std::int64_t end = 0;     ///< one past its highest row
  std::int64_t ranges = 0;  ///< how many
};
static_assert(sizeof(RowSummary) == 4 * sizeof(std::int64_t));

[[nodiscard]] RowSummary summarize(const LocalTensor& tensor);

/// The slab of each rank: rows that are contiguous in the file.
struct RowPlan {
  std::int64_t rows = 0;
  std::vector<RowRange> slabs;  ///< one per rank; of a count of 0 where it writes nothing
  bool moves_rows = false;      ///< ranks hold other rows than they write
};

/// The plan for a tensor whose ranks say `ranks`. Where each rank's rows already are one range, that is its
/// slab; otherwise the rows are divided equally. Throws Error{invalid_argument} where rows overlap or are
/// missing, as far as can be seen from here; move_rows sees the rest.
[[nodiscard]] RowPlan plan_rows(const LocalTensor& tensor, std::span<const RowSummary> ranks);

/// **Collective.** The bytes of this rank's slab, put together from those who hold its rows. Throws
/// Error{invalid_argument} naming a row that two ranges hold, or none.
[[nodiscard]] std::vector<std::byte> move_rows(const Communicator& ranks, const LocalTensor& tensor,
                                               const RowPlan& plan);

}  // namespace rota::checkpoint
