#include "schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/lines.hpp"
#include "digest.hpp"
#include "mpi/collectives.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

/// What a rank saves, as lines.
struct Schema {
  Schema(const SnapshotData& snapshot, std::int64_t step);
  /// Of each, 0 where there is nothing.
  [[nodiscard]] std::array<std::uint64_t, 3> digests() const;
  /// Throws where `root`, which is rank 0's, differs.
  void require_like(const Schema& root) const;

  std::string tensors;  // after the step
  std::string blobs;
  std::string same;
};

Schema::Schema(const SnapshotData& snapshot, std::int64_t step) : tensors(fmt::format("step {}\n", step)) {
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

std::array<std::uint64_t, 3> Schema::digests() const {
  const auto digest = [](const std::string& text) {
    return text.empty() ? 0 : short_digest(std::as_bytes(std::span(text)));
  };
  return {digest(tensors), digest(blobs), digest(same)};
}

void Schema::require_like(const Schema& root) const {
  if (const auto [own, other] = internal::first_difference(tensors, root.tensors); own != other) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("save a checkpoint: this rank saves {} where rank 0 saves {}; all ranks must add "
                            "the same tensors in the same order, and pass the same step",
                            own, other));
  }
  const auto there = internal::lines_of(root.blobs);
  for (const std::string_view blob : internal::lines_of(blobs)) {
    if (std::ranges::find(there, blob) != there.end()) continue;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("save a checkpoint: this rank adds blob \"{}\", which rank 0 does not, whose blobs "
                    "are saved; add it on rank 0, or as a rank_blob",
                    blob));
  }
  internal::require_same_lines("save a checkpoint", same, root.same);
}

}  // namespace

void require_same_schema(const mpi::Communicator& ranks, const SnapshotData& snapshot, std::int64_t step) {
  const Schema own(snapshot, step);
  const auto digests = own.digests();
  const std::vector<std::uint64_t> all = mpi::all_gather<std::uint64_t>(ranks, digests);
  bool is_same = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t part = i % digests.size();
    is_same = is_same && (all[i] == all[part] || (part == 1 && all[i] == 0));
  }
  if (is_same) return;
  Schema root = own;
  for (std::string* const text : {&root.tensors, &root.blobs, &root.same})
    *text = mpi::broadcast(ranks, std::move(*text));
  mpi::together(ranks, "compare what ranks save", [&] { own.require_like(root); });
}

}  // namespace rota::checkpoint
