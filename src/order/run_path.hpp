#pragma once

// How a run goes: by which batch sizes and weights, from where on. Next: run_order.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "order/mixture_steps.hpp"
#include "order/steps.hpp"
#include "rota/run_plan.hpp"
#include "rota/types.hpp"

namespace rota::internal {

/// Of one dataset, or of a mixture.
struct RunSteps : std::variant<Steps, MixtureSteps> {
  using variant::variant;
};

/// What a run is by, from `begin` on: one batch size, and, of a mixture, one set of weights.
struct Stretch {
  Position begin;
  std::int64_t batch_size = 0;
  std::shared_ptr<const RunSteps> steps;                       ///< by tail, epochs and weights
  std::shared_ptr<const std::vector<SampleId>> left_out = {};  ///< not read, ascending; null: none

  [[nodiscard]] const MixtureState* mixture() const noexcept;
  /// Where `step` begins, which is not before its own; nothing past the last step.
  [[nodiscard]] std::optional<Position> start_of(std::int64_t step) const;
  [[nodiscard]] bool lead(const Position& at) const;
  friend bool operator==(const Stretch& a, const Stretch& b);
};

/// By which ranks, states and traces know a plan.
[[nodiscard]] std::string digest_of_plan(const RunPlan& plan);

/// A change that no plan has: from a step on.
struct ChangeByHand {
  Position at;
  std::int64_t batch_size = 0;             ///< 0: as before
  std::vector<std::int64_t> weights = {};  ///< quantised; empty: as before
  friend bool operator==(const ChangeByHand&, const ChangeByHand&) = default;
};

/// The stretches of a run, one behind the other, by a plan and by changes by hand; a step finds its own by
/// search. What comes before the first one is not known. *Immutable*; copies share the steps.
class RunPath {
 public:
  /// The last so many changes by hand are known; what an older one has led to is the first stretch.
  static constexpr std::size_t kMostChanges = 64;

  /// `takes_stages`: what the plan has begun by that place counts there, as at the start of a run; else
  /// `first` has it. Throws Error{invalid_argument} from `plan.validate()`.
  RunPath(Stretch first, bool takes_stages, std::shared_ptr<const RunPlan> plan,
          std::vector<ChangeByHand> changes = {});

  [[nodiscard]] const Stretch& at(std::int64_t step) const noexcept;
  [[nodiscard]] const std::vector<Stretch>& stretches() const noexcept { return stretches_; }
  [[nodiscard]] const Position& begin() const noexcept { return first_.begin; }

  /// As Steps: the next batch at a place, behind steps that are left out.
  bool batch(const Position& place, GlobalBatch& out) const;
  /// Nothing before the first stretch, either.
  [[nodiscard]] std::optional<Position> start_of(std::int64_t step) const;
  [[nodiscard]] bool lead(const Position& place) const;
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] bool is_skipped(std::int64_t step) const noexcept;

  /// Whether a stage has begun by a place that it leads to.
  [[nodiscard]] bool has_begun(const Stage& stage, const Position& place) const;

  /// The same with a change at a place that it leads to.
  [[nodiscard]] RunPath with(ChangeByHand change) const;
  /// The same with another plan.
  [[nodiscard]] RunPath with(std::shared_ptr<const RunPlan> plan) const;
  /// Whether both lead to `at` by the same steps.
  [[nodiscard]] bool is_same_until(const RunPath& other, const Position& at) const;
  /// ... and from it on.
  [[nodiscard]] bool is_same_from(const RunPath& other, const Position& at) const;

  // What it was made of.
  [[nodiscard]] const Stretch& first() const noexcept { return first_; }
  [[nodiscard]] bool takes_stages() const noexcept { return takes_stages_; }
  [[nodiscard]] const std::shared_ptr<const RunPlan>& plan() const noexcept { return plan_; }
  [[nodiscard]] const std::vector<ChangeByHand>& changes() const noexcept { return changes_; }
  /// Whether all changes by hand are at places that the stretches lead to.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }

 private:
  struct Turning;  // what the plan changes at one place
  using Turnings = std::shared_ptr<const std::vector<Turning>>;
  [[nodiscard]] Turnings turnings() const;
  void check_left_out() const;
  void grow(bool takes_stages, std::span<const ChangeByHand> changes);
  void take(const ChangeByHand& change);
  void go_on(const Position& at, std::int64_t batch_size, const WeightedTurns* weights,
             std::span<const SampleId> leave_out = {});

  Stretch first_;
  bool takes_stages_;
  std::shared_ptr<const RunPlan> plan_;  // not null
  Turnings turnings_;
  std::vector<ChangeByHand> changes_;  // ascending
  bool is_whole_ = true;
  std::vector<Stretch> stretches_;  // ascending by step, each of another step
};

}  // namespace rota::internal
