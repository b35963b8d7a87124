#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "loader/batch_memory.hpp"
#include "ranks/deferred_reduction.hpp"
#include "rota/loader.hpp"
#include "rota/loader_options.hpp"

namespace rota::internal {

/// Keeps what was passed over in batches that were handed out, and counts it with other ranks. A step begins,
/// then ends or fails; one that has failed may begin again. Its first end or failure begins a sum over ranks,
/// the only one of this step however often it is tried, so that the ranks' sums match; the next step ends it,
/// and waits for the other ranks until the deadline. Once that was missed, it throws Error{timeout} for ever.
/// *One thread*, the loader's caller.
class SkipCounter {
 public:
  /// **Collective** over `comm`. Of replicas, number 0 counts.
  SkipCounter(const Communicator& comm, const LoaderOptions& options);

  /// **Collective.** Throws Error{corrupt} on all ranks where too many are skipped by now, once what the last
  /// step's failure on another rank was, and Error{timeout} naming the ranks that did not come.
  void begin_step();
  /// **Collective.** There is no step more: counts what is not counted yet, once. Throws as `begin_step`
  /// does.
  void end_run();
  /// How many were passed over in `batch`.
  std::int64_t end_step(const BatchMemory& batch);
  void fail_step(const std::exception_ptr& error);
  /// The next step is another one, whether the last has failed or not.
  void forget_failed_step() noexcept { is_reported_ = is_over_ = false; }
  /// **Collective** over `comm`: counts over its ranks from here on, and goes on from the highest count.
  void count_with(const Communicator& comm);

  [[nodiscard]] bool skips() const noexcept { return skips_; }
  /// That of the ranks that count.
  [[nodiscard]] const Communicator& comm() const noexcept { return sum_->comm(); }
  [[nodiscard]] const SkippedSamples& skipped() const noexcept { return skipped_; }
  /// What was skipped before the loader was made, restored, or counted with others: the same on all ranks.
  [[nodiscard]] std::int64_t before() const noexcept { return before_; }
  /// What all ranks of `world` know to be skipped, the same on each: without the last step, and where they do
  /// not count together without what was skipped since `before`.
  [[nodiscard]] std::int64_t known(const World& world) const noexcept {
    return sum_->comm().world().size == world.size ? agreed_ : before_;
  }
  /// What this rank has skipped since.
  [[nodiscard]] std::int64_t since() const noexcept { return since_; }
  /// Takes over the count of the run so far, and this rank's part of its list.
  void restore(SkippedSamples skipped);

 private:
  /// What a rank tells of a step: what it has skipped since `before_`; whether it has failed, and if so, its
  /// rank, and the code of its error; and how many good samples it was handed out since `before_`.
  struct Report {
    std::int64_t skipped = 0;
    std::int64_t failed = 0;
    std::int64_t rank = 0;
    std::int64_t code = 0;
    std::int64_t good = 0;
  };

  void report(Report report);
  [[nodiscard]] Report hear();
  void judge(const Report& others) const;
  [[noreturn]] void throw_too_many(const std::string& how_many) const;

  bool skips_;
  std::int64_t max_skipped_;
  std::chrono::milliseconds deadline_;
  std::unique_ptr<ranks::DeferredReduction> sum_;
  SkippedSamples skipped_;
  std::int64_t before_ = 0;
  std::int64_t since_ = 0;     // by this rank
  std::int64_t good_ = 0;      // of this rank, since then
  bool is_none_good_ = false;  // of all ranks, and many were skipped
  std::int64_t agreed_ = 0;    // the count as all ranks know it
  Report mine_;                // of the sum under way, or the last
  std::int64_t told_ = 0;      // `since_` as of then
  bool is_reported_ = false;   // this step has failed before
  bool is_over_ = false;       // the run is, and that was summed
  bool is_stale_ = false;      // the sum under way is of before a restore
};

}  // namespace rota::internal
