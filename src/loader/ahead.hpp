#pragma once

// What sources are told before they are asked to read.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "order/planner.hpp"
#include "rota/loader.hpp"
#include "source/read_plan.hpp"

namespace rota::internal {

/// The plan of a loader of `run` with these options.
[[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(const Source& source, const Run& run,
                                                   const LoaderOptions& options);

/// Run::slice, as the options have it.
bool slice_of(const Run& run, RunSlice& out, World world, const LoaderOptions& options);

/// Tells a plan this rank's samples, in order, as far ahead as it wants. *One thread* at a time.
class SamplesAhead {
 public:
  /// `plan` and `options` must outlive it.
  SamplesAhead(ReadPlan& plan, const LoaderOptions& options, World world)
      : plan_(plan), options_(options), world_(world) {}
  /// The next batch of `run`, of so many samples of all ranks, has been planned, in order.
  void follow(const Run& run, std::int64_t samples) noexcept;
  /// A batch that comes again has been planned: what is in it was told before, if ever, and passed.
  void tell_again(const RunSlice& slice) noexcept;

 private:
  void tell(const Run& run, std::int64_t samples);

  ReadPlan& plan_;
  const LoaderOptions& options_;
  World world_;
  bool is_on_ = true;
  std::optional<Run> told_;  // before the batch to be told
  RunSlice slice_;           // of that
  std::int64_t ahead_ = 0;   // samples that were told, and not yet planned
};

/// Tells a source what its loader will read, as a ReadPlan takes it. *One thread* at a time.
///
/// - This rank's samples, in order, as far ahead as the plan wants.
/// - Shuffle::block: the blocks of the window at hand and of the next, as wholes. A batch reads a few samples
///   of each block of a window, all over the block. This ends for good once the source cannot bring them, or
///   where windows take more than LoaderOptions::read_ahead_bytes.
/// - Shared files: the interleave groups that batches touch, and the one that comes next, unless groups
///   before the last one planned are still being read. So two groups are pinned at a time, or as many as
///   the read-ahead touches.
class Ahead {
 public:
  using Pin = std::shared_ptr<const void>;

  /// `source` and `options` must outlive it. Throws Error{invalid_argument} for an order that is of all
  /// shared files at all times, Error{unsupported} where samples side by side lie all over them.
  Ahead(const Source& source, const Run& run, const LoaderOptions& options, World world);

  /// `planner` has planned the next batch of `run`, in order, and `planned` is this rank's part. The shared
  /// files of it are pinned as long as `pins` are kept. Throws what pinning throws.
  void follow(const Run& run, const Planner& planner, const RunSlice& planned, std::vector<Pin>& pins);
  /// There is no next batch: pins nothing more but what batches pin.
  void end() noexcept;

 private:
  /// `is_held` ends once the files have been let go, for members end in reverse order.
  struct Held {
    std::shared_ptr<const bool> is_held = std::make_shared<bool>(true);
    std::vector<Pin> files = {};
  };
  /// An interleave group of one epoch, as the k-th that is consumed.
  struct Group {
    std::int64_t epoch = 0;
    std::int64_t k = 0;
    std::shared_ptr<const Held> held;  // null: the run is past it, and only batches may pin it
    std::weak_ptr<const bool> is_held = held->is_held;
  };
  struct Dataset {
    Order order;
    std::int64_t first_id = 0;
    EpochGroups groups = {};         // of the epoch that was last planned
    std::vector<Group> pinned = {};  // the last that was planned, those before, and what comes next
    std::int64_t window_epoch = -1;
    std::map<std::int64_t, std::int64_t> windows = {};  // by shard that is being read: the next to be brought
  };

  void bring_windows(const Planner& planner);
  void bring_windows(Dataset& dataset, const EpochOrder& order, const ShardSpan& span);

  void pin(const GlobalBatch& batch, std::vector<Pin>& out);
  [[nodiscard]] std::shared_ptr<const Held> hold(const Dataset& dataset, std::int64_t epoch, std::int64_t k);
  Pin go_on(Dataset& dataset, std::int64_t epoch, std::int64_t k);
  void look_ahead(Dataset& dataset);

  std::unique_ptr<ReadPlan> plan_;
  std::vector<Dataset> datasets_;
  World world_;
  Split split_;
  std::int64_t epochs_;  // that a dataset goes through, as far as is known

  SamplesAhead told_;

  bool brings_;        // windows
  double most_bytes_;  // of a sample on average, so that all that is ahead is no more than it may be
  double bytes_ = 0;   // that were brought
  double samples_ = 0;
};

}  // namespace rota::internal
