#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "loader/planner.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Has a source that is spread over ranks bring what the next steps read, many steps at a time, so that all
/// ranks meet seldom, and always at the same step. *One thread*, the loader's caller.
class Bringer {
 public:
  /// `source` must outlive it.
  Bringer(const Source& source, const Order& order, const LoaderOptions& options, World world)
      : source_(source),
        planner_(order, options, world),
        ahead_(options.workers > 0 ? options.read_ahead_batches : 0),
        stretch_(std::max(kStepsAtOnce, ahead_)) {}

  /// Goes on at `at`, in which nothing is brought yet.
  void restart(const Position& at) noexcept {
    here_ = {};
    at_ = at;
    delivered_ = brought_ = 0;
    is_over_ = false;
  }
  Planner& planner() noexcept { return planner_; }

  /// **Collective** at each multiple of the stretch: before a step is delivered.
  void bring();
  void count_step() noexcept { ++delivered_; }
  /// Steps since the last restart that are delivered, and that may be read.
  [[nodiscard]] std::int64_t delivered() const noexcept { return delivered_; }
  [[nodiscard]] std::int64_t brought() const noexcept { return brought_; }

 private:
  // Of two stretches that are here, the steps ahead take up at most one.
  static constexpr std::int64_t kStepsAtOnce = 64;

  const Source& source_;
  Planner planner_;
  std::int64_t ahead_;
  std::int64_t stretch_;
  Position at_;  // behind the last step brought
  std::int64_t delivered_ = 0;
  std::int64_t brought_ = 0;
  bool is_over_ = false;                             // there are no steps behind
  std::array<std::shared_ptr<const void>, 2> here_;  // by the last call, and by the one before
  Slots slots_;
  std::vector<SampleId> ids_;
};

}  // namespace rota::internal
