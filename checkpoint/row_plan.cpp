#include "row_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <string>

#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "core/text.hpp"
#include "digest.hpp"
#include "ranks/collectives.hpp"
#include "rota/types.hpp"

namespace rota::checkpoint {
namespace {

/// What a rank saves, as lines.
struct Schema {
  Schema(const SnapshotData& snapshot, std::int64_t step) : tensors(fmt::format("step {}\n", step)) {
    for (const LocalTensor& tensor : snapshot.tensors()) {
      tensors +=
          fmt::format("tensor \"{}\", {} [{}], {}\n", tensor.name, to_string(tensor.dtype),
                      fmt::join(tensor.row_shape, ", "), tensor.has_ranges ? "by row ranges" : "in order");
    }
    for (const LocalBlob& blob : snapshot.blobs()) blobs += blob.name + '\n';
    for (const LocalBlob& part : snapshot.same()) {
      for (const std::string_view line : internal::lines_of(part.bytes)) {
        same += fmt::format("{}: {}\n", part.name, line);
      }
    }
  }
  /// Of each, 0 where there is nothing.
  [[nodiscard]] std::array<std::uint64_t, 3> digests() const {
    const auto digest = [](const std::string& text) {
      return text.empty() ? 0 : short_digest(std::as_bytes(std::span(text)));
    };
    return {digest(tensors), digest(blobs), digest(same)};
  }
  /// Throws where `root`, which is rank 0's, differs.
  void require_like(const Schema& root) const {
    if (const auto [own, other] = internal::first_difference(tensors, root.tensors); own != other) {
      throw internal::failure(
          ErrorCode::invalid_argument,
          "save a checkpoint: this rank saves {} where rank 0 saves {}; all ranks must add the same tensors "
          "in the same order, and pass the same step",
          own, other);
    }
    const auto there = internal::lines_of(root.blobs);
    for (const std::string_view blob : internal::lines_of(blobs)) {
      if (std::ranges::find(there, blob) != there.end()) continue;
      throw internal::failure(ErrorCode::invalid_argument,
                              "save a checkpoint: this rank adds blob \"{}\", which rank 0 does not, whose "
                              "blobs are saved; add it on rank 0, or as a rank_blob",
                              blob);
    }
    internal::require_same_lines("save a checkpoint", same, root.same);
  }

  std::string tensors;  // after the step
  std::string blobs;
  std::string same;
};

}  // namespace

void require_same_schema(const Communicator& ranks, const SnapshotData& snapshot, std::int64_t step) {
  const Schema own(snapshot, step);
  const auto digests = own.digests();
  const std::vector<std::uint64_t> all = ranks::all_gather<std::uint64_t>(ranks, digests);
  bool is_same = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t part = i % digests.size();
    is_same = is_same && (all[i] == all[part] || (part == 1 && all[i] == 0));
  }
  if (is_same) return;
  Schema root = own;
  for (std::string* const text : {&root.tensors, &root.blobs, &root.same})
    *text = ranks::broadcast(ranks, std::move(*text));
  ranks.together("compare what ranks save", [&] { own.require_like(root); });
}

namespace {

[[noreturn]] void reject(const LocalTensor& tensor, std::string_view why) {
  throw internal::failure(ErrorCode::invalid_argument, "save tensor \"{}\": {}", tensor.name, why);
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

RowRange equal_slab(std::int64_t rows, std::size_t rank, std::size_t ranks) {
  const auto begin = [&](std::size_t r) {
    return share(rows, static_cast<std::int64_t>(r), static_cast<std::int64_t>(ranks));
  };
  return {.first = begin(rank), .count = begin(rank + 1) - begin(rank)};
}

// Calls `visit(slab, run, data)` for each run of this rank's rows that goes into one slab.
template <typename Visit>
void visit_runs(const LocalTensor& tensor, const RowPlan& plan, Visit&& visit) {
  const std::byte* data = tensor.data.data();
  for (RowRange rest : tensor.ranges) {
    const auto above = std::ranges::upper_bound(plan.slabs, rest.first, {}, &RowRange::first);
    for (auto slab = above - 1; rest.count > 0; ++slab) {
      const std::int64_t count = std::min(rest.count, slab->first + slab->count - rest.first);
      const auto bytes = static_cast<std::size_t>(count * tensor.row_bytes);
      visit(static_cast<std::size_t>(slab - plan.slabs.begin()),
            RowRange{.first = rest.first, .count = count}, std::span(data, bytes));
      data += bytes;
      rest = {.first = rest.first + count, .count = rest.count - count};
    }
  }
}

// A message to the writer of each slab: runs of rows, each followed by its bytes.
void write_messages(const LocalTensor& tensor, const RowPlan& plan, ranks::Messages& messages) {
  std::vector<std::size_t> sizes(messages.size());
  visit_runs(tensor, plan, [&](std::size_t slab, const RowRange& run, std::span<const std::byte> data) {
    sizes[slab] += sizeof(run) + data.size();
  });
  std::vector<internal::ByteWriter> writers(messages.size());
  for (std::size_t r = 0; r < sizes.size(); ++r) writers[r].reserve(sizes[r]);
  visit_runs(tensor, plan, [&](std::size_t slab, const RowRange& run, std::span<const std::byte> data) {
    writers[slab].add(run);
    writers[slab].add_bytes(data);
  });
  for (std::size_t r = 0; r < sizes.size(); ++r) messages[r] = std::move(writers[r]).take();
}

// Puts the rows of `message` in their places in `slab`, and their ranges among `covered`.
void place(std::span<const std::byte> message, std::int64_t row_bytes, RowRange slab_rows,
           std::span<std::byte> slab, std::vector<RowRange>& covered) {
  internal::ByteReader reader(message, "place rows");
  while (!reader.at_end()) {
    const auto run = reader.next<RowRange>();
    covered.push_back(run);
    const auto data = reader.next_bytes(static_cast<std::size_t>(run.count * row_bytes));
    const auto at = static_cast<std::size_t>((run.first - slab_rows.first) * row_bytes);
    assert(at + data.size() <= slab.size());
    std::copy(data.begin(), data.end(), slab.subspan(at, data.size()).begin());
  }
}

// `covered` must hold every row of `rows` once, in any order.
void require_every_row_once(const LocalTensor& tensor, RowRange rows, std::vector<RowRange> covered) {
  std::erase_if(covered, [](const RowRange& run) { return run.count == 0; });
  std::ranges::sort(covered, {}, &RowRange::first);
  std::int64_t next = rows.first;
  for (const RowRange& run : covered) {
    if (run.first != next) reject_row(tensor, std::min(run.first, next), run.first > next);
    next += run.count;
  }
  if (next != rows.first + rows.count) reject_row(tensor, next, true);
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
  // Each rank's one range is its slab: they must follow one another, in any order of rank.
  if (!plan.moves_rows) require_every_row_once(tensor, {.first = 0, .count = plan.rows}, plan.slabs);
  return plan;
}

std::vector<std::byte> move_rows(const Communicator& ranks, const LocalTensor& tensor, const RowPlan& plan) {
  const std::string phase = fmt::format("move the rows of tensor \"{}\"", tensor.name);
  const auto received = ranks::exchange(
      ranks, phase, [&](ranks::Messages& messages) { write_messages(tensor, plan, messages); });
  std::vector<std::byte> slab;
  ranks.together(phase, [&] {
    const RowRange rows = plan.slabs[static_cast<std::size_t>(ranks.rank())];
    slab.resize(static_cast<std::size_t>(rows.count * tensor.row_bytes));
    std::vector<RowRange> covered;
    for (const auto& message : received) place(message, tensor.row_bytes, rows, slab, covered);
    require_every_row_once(tensor, rows, std::move(covered));
  });
  return slab;
}

}  // namespace rota::checkpoint
