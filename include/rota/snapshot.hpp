#pragma once

// What is to be saved: tensors of which each rank holds some rows, and blobs. Next: checkpoint.hpp.

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

/// What is to be saved, as far as this rank knows it. Every rank adds the same tensors in the same order,
/// each with its own rows. Memory given as a span is not copied and must live, and stay as it is, until the
/// save is over. *One thread*, not collective. One that was moved from, as by `save_async`, throws
/// Error{invalid_argument} from every method, and where it is saved.
///
/// Names are paths of components [A-Za-z0-9_.-]+ joined by "/", such as "model/layer0.weight"; a tensor's is
/// the path of its dataset in the file. The first is not "rota".
class Snapshot {
 public:
  Snapshot();
  ~Snapshot();
  Snapshot(Snapshot&&) noexcept;
  Snapshot& operator=(Snapshot&&) noexcept;

  /// A distributed tensor [sum of rows over ranks, row_shape...] of which this rank holds `rows` rows in
  /// `data`, row major: those that follow the rows of the lower ranks. `rows` may be 0. Throws
  /// Error{invalid_argument} for a bad or repeated name, or data whose size does not match.
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape, std::int64_t rows,
              std::span<const std::byte> data);
  /// The same, of which this rank holds these row ranges (any number, in the order of `data`); over all ranks
  /// they must cover every row once, which the save checks.
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
              std::span<const RowRange> rows, std::span<const std::byte> data);
  /// The same for memory that the snapshot takes over; a vector that is not moved in is viewed as a span.
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape, std::int64_t rows,
              std::vector<std::byte>&& data);
  void tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
              std::span<const RowRange> rows, std::vector<std::byte>&& data);
  /// `data`, such as a std::vector<float> or a std::span<const double>, as rows of `row_shape`, its element
  /// type taken from the range. It is not copied, so a temporary vector does not compile.
  template <std::ranges::contiguous_range Range>
  requires std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range>
  void tensor(std::string_view name, std::vector<std::int64_t> row_shape, std::int64_t rows, Range&& data) {
    using T = std::ranges::range_value_t<Range>;
    tensor(name, kDTypeOf<T>, std::move(row_shape), rows, std::as_bytes(std::span<const T>(data)));
  }

  /// State that is not distributed: rank 0's `bytes` are saved, compressed and checksummed.
  void blob(std::string_view name, std::string bytes);
  /// State of this very rank. It is handed back only to the rank of the same number in a world of the same
  /// size, by `Checkpoint::rank_blob`; in any other world it is dropped, and `Checkpoint::dropped` lists it.
  void rank_blob(std::string_view name, std::string bytes);
  /// The same of worker `worker` of the `workers` of this rank, which must be as many when it is handed back,
  /// by `Checkpoint::worker_blob`. In the file it is the rank's blob `worker_blob_name(name, worker,
  /// workers)`.
  void worker_blob(std::string_view name, int worker, int workers, std::string bytes);

 private:
  friend class SnapshotAccess;
  struct Impl;
  [[nodiscard]] Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

/// "<name>/worker-<worker>-of-<workers>". Throws Error{invalid_argument} unless 0 <= worker < workers.
std::string worker_blob_name(std::string_view name, int worker, int workers);

}  // namespace rota
