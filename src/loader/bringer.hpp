#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "loader/planner.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Has a source that is spread over ranks bring what the next steps read, many steps at a time, so that all
/// ranks meet seldom, and always at the same step, however far each of them reads ahead. *One thread*, the
/// loader's caller.
class Bringer {
 public:
  /// `source` must outlive it.
  Bringer(const Source& source, const Recipe& recipe, const LoaderOptions& options, World world)
      : source_(source),
        planner_(recipe, options, world),
        ahead_(options.workers > 0 ? options.read_ahead_batches : 0) {}

  /// Goes on at `at`, in which nothing is brought yet.
  void restart(const Position& at) noexcept {
    here_.clear();
    at_ = at;
    delivered_ = brought_ = next_call_ = 0;
    is_over_ = false;
  }
  Planner& planner() noexcept { return planner_; }

  /// **Collective** before every 64th step that there is.
  void bring();
  void count_step() noexcept { ++delivered_; }
  /// Steps since the last restart that are delivered, and that may be read.
  [[nodiscard]] std::int64_t delivered() const noexcept { return delivered_; }
  [[nodiscard]] std::int64_t brought() const noexcept { return brought_; }
  /// Whether there is no step behind those.
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }

 private:
  static constexpr std::int64_t kStepsAtOnce = 64;

  /// What steps before `until` read.
  struct Brought {
    std::int64_t until;
    std::shared_ptr<const void> kept;
  };

  const Source& source_;
  Planner planner_;
  std::int64_t ahead_;
  Position at_;  // behind the last step brought
  std::int64_t delivered_ = 0;
  std::int64_t brought_ = 0;
  bool is_over_ = false;
  std::int64_t next_call_ = 0;  // when so many are delivered
  std::deque<Brought> here_;    // the older, the further in front
  Slots slots_;
  std::vector<SampleId> ids_;
};

}  // namespace rota::internal
