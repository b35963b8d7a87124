#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "order/run_order.hpp"
#include "order/schedule.hpp"
#include "rota/loader.hpp"
#include "source/node_files.hpp"

namespace rota::internal {

/// What pins files of a source in shared memory.
using Pin = std::shared_ptr<const void>;

/// Has a source whose files are shared pin those of the interleave groups that batches touch, and of the
/// group that comes next, unless groups before the last one planned are still being read: so two groups are
/// pinned at a time, or as many as the read-ahead touches. Once destroyed, it
/// pins nothing more but what batches pin. *One thread* at a time.
class GroupPins {
 public:
  /// `files` must outlive it. Throws Error{invalid_argument} for an order that is of all files at all times,
  /// and what NodeFiles::pin throws.
  GroupPins(const NodeFiles& files, const RunOrder& order, const LoaderOptions& options, World world);

  /// What `batch` reads is pinned as long as `out` is kept.
  void pin(const GlobalBatch& batch, std::vector<Pin>& out);

 private:
  /// Whether a group is pinned no more; not before its files have been let go.
  using IsOver = std::shared_ptr<std::atomic<bool>>;
  /// A group of one epoch of a dataset, as the k-th that is consumed.
  struct Group {
    std::int64_t epoch = 0;
    std::int64_t k = 0;
    Pin pins;
    IsOver is_over;
  };
  struct Dataset {
    Order order;
    std::int64_t first_id = 0;
    EpochGroups groups = {};          // of the epoch that was last planned
    std::vector<Group> pins = {};     // the last that was planned, and what comes next
    std::vector<IsOver> passed = {};  // of groups before, which batches may still pin
  };
  [[nodiscard]] Pin pin_files(const Dataset& dataset, std::int64_t epoch, std::int64_t k) const;
  [[nodiscard]] Group begin(const Dataset& dataset, std::int64_t epoch, std::int64_t k) const;
  Pin go_on(Dataset& dataset, std::int64_t epoch, std::int64_t k);
  void look_ahead(Dataset& dataset);

  const NodeFiles& files_;
  std::vector<Dataset> datasets_;
  World world_;
  bool splits_shards_;
  std::int64_t epochs_;  // that a dataset goes through, as far as is known
};

}  // namespace rota::internal
