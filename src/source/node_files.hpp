#pragma once

// Files of a source that the ranks of a node share in memory.

#include <cstdint>
#include <memory>

#include "order/order.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Files that were decompressed or copied into shared memory.
struct Fetched {
  std::int64_t files = 0;
  std::int64_t bytes = 0;  ///< in memory
};

/// Throws Error{out_of_range} unless it is a range of `size` samples.
void check_range(SampleRange samples, std::int64_t size);

/// The files of one source that are fetched into memory of the node, decompressed or copied, and read from
/// there. A Loader says which are needed, and takes only orders that need few of them at a time. *Any
/// thread.*
class NodeFiles {
 public:
  NodeFiles() = default;
  virtual ~NodeFiles() = default;
  NodeFiles(const NodeFiles&) = delete;
  NodeFiles& operator=(const NodeFiles&) = delete;

  /// Keeps the files of `samples` in memory, once they are there, for as long as what this returns is kept;
  /// where it `reads` them, they are fetched in the background, too. Files that all ranks of the node have
  /// pinned and let go are dropped. Does not block. Throws Error{out_of_range} for samples that there are
  /// not, Error{unsupported} where a range of samples lies all over the files (split, pack).
  [[nodiscard]] virtual std::shared_ptr<const void> pin(SampleRange samples, bool reads) const = 0;
  /// What this process has fetched so far.
  [[nodiscard]] virtual Fetched fetched() const = 0;
};

/// The node's files of a source made of others; none where these have none.
[[nodiscard]] Fetched fetched_by(const Source& source);

/// Those of a source whose ranges of samples lie all over the files of another: `pin` refuses.
class ScatteredNodeFiles final : public NodeFiles {
 public:
  /// `whole` must outlive it.
  explicit ScatteredNodeFiles(const Source& whole) : whole_(whole) {}
  [[nodiscard]] std::shared_ptr<const void> pin(SampleRange samples, bool reads) const override;
  [[nodiscard]] Fetched fetched() const override { return fetched_by(whole_); }
  /// This, if the other source has files of the node.
  [[nodiscard]] const NodeFiles* if_any() const { return whole_.node_files() == nullptr ? nullptr : this; }

 private:
  const Source& whole_;
};

}  // namespace rota::internal
