#include "row_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>

#include "little_endian.hpp"
#include "rota/error.hpp"
#include "rota/types.hpp"

namespace rota::checkpoint {
namespace {

[[noreturn]] void reject(const LocalTensor& tensor, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("save tensor \"{}\": {}", tensor.name, why));
}

[[noreturn]] void reject_row(const LocalTensor& tensor, std::int64_t row, bool is_missing) {
  reject(tensor, fmt::format("row {} is held by {}; over all ranks the row ranges must hold every row once",
                             row, is_missing ? "no rank" : "two ranges"));
}

std::int64_t total_rows(const LocalTensor& tensor, std::span<const RowSummary> ranks) {
  std::int64_t rows = 0;
  for (const RowSummary& rank : ranks) {
    if (__builtin_add_overflow(rows, rank.count, &rows)) break;
  }
  if (rows < 0 || checked_product(rows, std::max<std::int64_t>(tensor.row_bytes, 1)) < 0) {
    reject(tensor, "its ranks hold more bytes than a number can say");
  }
  return rows;
}

// Each rank's one range is its slab: they must follow one another, in any order of rank.
void require_tiling(const LocalTensor& tensor, const RowPlan& plan) {
  std::vector<RowRange> sorted = plan.slabs;
  std::erase_if(sorted, [](const RowRange& slab) { return slab.count == 0; });
  std::ranges::sort(sorted, {}, &RowRange::first);
  std::int64_t next = 0;
  for (const RowRange& slab : sorted) {
    if (slab.first != next) reject_row(tensor, std::min(slab.first, next), slab.first > next);
    next += slab.count;
  }
}

RowRange equal_slab(std::int64_t rows, std::size_t rank, std::size_t ranks) {
  const auto begin = [&](std::size_t r) {
    return share(rows, static_cast<std::int64_t>(r), static_cast<std::int64_t>(ranks));
  };
  return {.first = begin(rank), .count = begin(rank + 1) - begin(rank)};
}

// A message to the writer of a slab: how many runs of rows, their ranges, then their bytes.
constexpr std::size_t kRangeBytes = 2 * sizeof(std::int64_t);

struct OutgoingRows {
  std::vector<RowRange> runs;
  std::vector<const std::byte*> data;
};

// Divides this rank's rows by the slab that they belong to.
std::vector<OutgoingRows> divide(const LocalTensor& tensor, const RowPlan& plan) {
  std::vector<OutgoingRows> outgoing(plan.slabs.size());
  const std::byte* data = tensor.data.data();
  for (RowRange rest : tensor.ranges) {
    const auto above = std::ranges::upper_bound(plan.slabs, rest.first, {}, &RowRange::first);
    for (auto slab = above - 1; rest.count > 0; ++slab) {
      const std::int64_t count = std::min(rest.count, slab->first + slab->count - rest.first);
      OutgoingRows& rows = outgoing[static_cast<std::size_t>(slab - plan.slabs.begin())];
      rows.runs.push_back({.first = rest.first, .count = count});
      rows.data.push_back(data);
      data += count * tensor.row_bytes;
      rest = {.first = rest.first + count, .count = rest.count - count};
    }
  }
  return outgoing;
}

std::vector<std::byte> to_message(const OutgoingRows& rows, std::int64_t row_bytes) {
  std::int64_t count = 0;
  for (const RowRange& run : rows.runs) count += run.count;
  std::vector<std::byte> message(sizeof(std::int64_t) + rows.runs.size() * kRangeBytes +
                                 static_cast<std::size_t>(count * row_bytes));
  put(message, 0, std::ssize(rows.runs));
  std::size_t range_at = sizeof(std::int64_t);
  std::size_t data_at = range_at + rows.runs.size() * kRangeBytes;
  for (std::size_t i = 0; i < rows.runs.size(); ++i) {
    put(message, range_at, rows.runs[i]);
    const auto bytes = static_cast<std::size_t>(rows.runs[i].count * row_bytes);
    if (bytes != 0) std::memcpy(message.data() + data_at, rows.data[i], bytes);
    range_at += kRangeBytes;
    data_at += bytes;
  }
  return message;
}

// Puts the rows of `message` in their places in `slab`, and their ranges among `covered`.
void place(std::span<const std::byte> message, std::int64_t row_bytes, RowRange slab_rows,
           std::span<std::byte> slab, std::vector<RowRange>& covered) {
  const auto runs = static_cast<std::size_t>(get<std::int64_t>(message, 0));
  std::size_t data_at = sizeof(std::int64_t) + runs * kRangeBytes;
  for (std::size_t i = 0; i < runs; ++i) {
    const auto run = get<RowRange>(message, sizeof(std::int64_t) + i * kRangeBytes);
    covered.push_back(run);
    const auto bytes = static_cast<std::size_t>(run.count * row_bytes);
    const auto at = static_cast<std::size_t>((run.first - slab_rows.first) * row_bytes);
    assert(at + bytes <= slab.size());
    if (bytes != 0) std::memcpy(slab.data() + at, message.data() + data_at, bytes);
    data_at += bytes;
  }
}

void require_every_row_once(const LocalTensor& tensor, RowRange slab, std::vector<RowRange>& covered) {
  std::ranges::sort(covered, {}, &RowRange::first);
  std::int64_t next = slab.first;
  for (const RowRange& run : covered) {
    if (run.first != next) reject_row(tensor, std::min(run.first, next), run.first > next);
    next += run.count;
  }
  if (next != slab.first + slab.count) reject_row(tensor, next, true);
}

}  // namespace

RowSummary summarize(const LocalTensor& tensor) {
  RowSummary summary{.count = tensor.rows, .ranges = std::ssize(tensor.ranges)};
  if (!tensor.ranges.empty()) summary.first = tensor.ranges.front().first;
  for (const RowRange& range : tensor.ranges) summary.end = std::max(summary.end, range.first + range.count);
  return summary;
}

RowPlan plan_rows(const LocalTensor& tensor, std::span<const RowSummary> ranks) {
  RowPlan plan;
  plan.rows = total_rows(tensor, ranks);
  plan.moves_rows = std::ranges::any_of(ranks, [](const RowSummary& rank) { return rank.ranges > 1; });
  std::int64_t follows = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].end > plan.rows) {
      reject(tensor, fmt::format("rank {} holds row {}, but all ranks together hold only {} rows; over all "
                                 "ranks the row ranges must hold every row once",
                                 r, ranks[r].end - 1, plan.rows));
    }
    const std::int64_t first = tensor.has_ranges ? ranks[r].first : follows;
    follows += ranks[r].count;
    plan.slabs.push_back(plan.moves_rows ? equal_slab(plan.rows, r, ranks.size())
                                         : RowRange{.first = first, .count = ranks[r].count});
  }
  if (!plan.moves_rows) require_tiling(tensor, plan);
  return plan;
}

std::vector<std::byte> move_rows(Collectives& ranks, const LocalTensor& tensor, const RowPlan& plan) {
  const std::string phase = fmt::format("move the rows of tensor \"{}\"", tensor.name);
  const auto received = ranks.exchange(phase, [&](Collectives::Messages& messages) {
    std::ranges::transform(divide(tensor, plan), messages.begin(),
                           [&](const OutgoingRows& rows) { return to_message(rows, tensor.row_bytes); });
  });
  std::vector<std::byte> slab;
  ranks.together(phase, [&] {
    const RowRange rows = plan.slabs[static_cast<std::size_t>(ranks.rank())];
    slab.resize(static_cast<std::size_t>(rows.count * tensor.row_bytes));
    std::vector<RowRange> covered;
    for (const auto& message : received) place(message, tensor.row_bytes, rows, slab, covered);
    require_every_row_once(tensor, rows, covered);
  });
  return slab;
}

}  // namespace rota::checkpoint
