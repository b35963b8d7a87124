#pragma once

// What a save writes: tensors, some rows of each from every rank, and blobs. Next: checkpoint.hpp.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/dtype.hpp"

namespace rota {

/// Global rows [first, first + count) of a tensor.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// What this rank adds to a save. Every rank adds the same tensors in the same order, each with its own rows.
/// Memory given as a span is not copied: it must live, unchanged, until the save is over. *One thread*, not
/// collective. After a move, as into `save_async`, all methods and a save throw Error{invalid_argument}.
///
/// Names are components [A-Za-z0-9_.-]+ joined by "/", such as "model/layer0.weight". A tensor's name is the
/// path of its dataset in the file. The first component is not "rota".
class Snapshot {
 public:
  Snapshot();
  ~Snapshot();
  Snapshot(Snapshot&&) noexcept;
  Snapshot& operator=(Snapshot&&) noexcept;

  /// A distributed tensor [sum of rows over ranks, row_shape...]. `data` has this rank's `rows` rows, row
  /// major. They follow the rows of the lower ranks. `rows` may be 0. Throws Error{invalid_argument} for a
  /// bad or repeated name, and where the size of `data` does not match.
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape, std::int64_t rows,
              std::span<const std::byte> data);
  /// The same with explicit row ranges of this rank: any number, in the order of `data`. Over all ranks they
  /// must cover every row once, which the save checks.
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
              std::span<const RowRange> rows, std::span<const std::byte> data);
  /// The same, but the snapshot owns `data`. A vector that is not moved in is viewed as a span.
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape, std::int64_t rows,
              std::vector<std::byte>&& data);
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
              std::span<const RowRange> rows, std::vector<std::byte>&& data);
  /// The rows of `data`, such as a std::vector<float> or a std::span<const double>; its element type is the
  /// tensor's. It is not copied, so a temporary vector does not compile.
  template <std::ranges::contiguous_range Range>
  requires std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range>
  void tensor(std::string_view name, std::vector<std::int64_t> row_shape, std::int64_t rows, Range&& data) {
    using T = std::ranges::range_value_t<Range>;
    tensor(name, kDTypeOf<T>, std::move(row_shape), rows, std::as_bytes(std::span<const T>(data)));
  }

  /// State that is not distributed. Rank 0's `bytes` are saved, compressed and checksummed.
  void blob(std::string_view name, std::string bytes);
  /// State of this rank alone. `Checkpoint::rank_blob` returns it to the rank of the same number, in a world
  /// of the same size. In another world it is dropped, and `Checkpoint::dropped` lists it.
  void rank_blob(std::string_view name, std::string bytes);
  /// State of worker `worker` of this rank's `workers`. `Checkpoint::worker_blob` returns it where worlds and
  /// numbers of workers are the same. In the file it is the rank blob `worker_blob_name(name, worker,
  /// workers)`.
  void worker_blob(std::string_view name, int worker, int workers, std::string bytes);
  /// What must be the same on all ranks, such as where a loader is: lines, of which the save compares each.
  /// It throws Error{mismatch} with those that differ. They are not saved.
  void same(std::string_view name, std::string lines);

 private:
  friend class SnapshotAccess;
  struct Impl;
  [[nodiscard]] Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

/// "<name>/worker-<worker>-of-<workers>". Throws Error{invalid_argument} unless 0 <= worker < workers.
std::string worker_blob_name(std::string_view name, int worker, int workers);

}  // namespace rota
