#pragma once

// Several datasets mixed: which turns of each make a step. Next: run_order.hpp.

#include <cstdint>
#include <optional>
#include <vector>

#include "order/steps.hpp"
#include "order/weighted_turns.hpp"
#include "rota/types.hpp"

namespace rota::internal {

/// When a mixture ends, and how.
struct MixtureRules {
  MixtureEnd end = MixtureEnd::first_exhausted;
  std::int64_t steps = 0;
  std::int64_t passes = 1;  ///< over a dataset, with which it is exhausted
  Tail tail = Tail::partial;
  friend bool operator==(const MixtureRules&, const MixtureRules&) = default;
};

/// The steps of a mixture: what Steps is for one dataset. Positions are in epoch 0 and count the samples of
/// the run. *Immutable.*
class MixtureSteps {
 public:
  /// `lengths` are the samples of each dataset of `turns`, none of them 0.
  MixtureSteps(std::vector<std::int64_t> lengths, const MixtureRules& rules, WeightedTurns turns);
  /// The same with other weights, from their state on.
  [[nodiscard]] MixtureSteps with(WeightedTurns turns) const { return {lengths_, rules_, std::move(turns)}; }

  // As of Steps.

  /// Throws Error{out_of_range} also for a position before weights were last set.
  void require(const Position& at) const;
  bool batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const;
  /// Throws Error{unsupported} where datasets end it.
  [[nodiscard]] std::int64_t count(const Position& from, std::int64_t batch_size) const;
  [[nodiscard]] bool lead(const Position& from, std::int64_t batch_size, const Position& at) const;
  [[nodiscard]] std::optional<Position> start_of(const Position& from, std::int64_t batch_size,
                                                 std::int64_t step) const;
  /// Where the batch starts that has turn `turn` of the run.
  [[nodiscard]] std::optional<Position> find(const Position& from, std::int64_t batch_size,
                                             std::int64_t turn) const;

  /// How many turns of the run come before `turn` of `dataset`'s own epochs: kNever beyond the run; nothing
  /// for one before weights were last set.
  [[nodiscard]] std::optional<std::int64_t> turns_before(std::size_t dataset, const Turn& turn) const;
  /// Where a dataset is, in epochs of its own.
  [[nodiscard]] Position place(std::size_t dataset, const Position& at) const;

  [[nodiscard]] const std::vector<std::int64_t>& lengths() const noexcept { return lengths_; }
  [[nodiscard]] const MixtureRules& rules() const noexcept { return rules_; }
  [[nodiscard]] const WeightedTurns& turns() const noexcept { return turns_; }
  [[nodiscard]] Tail tail() const noexcept { return rules_.tail; }
  [[nodiscard]] std::int64_t epochs() const noexcept { return rules_.passes; }
  friend bool operator==(const MixtureSteps& a, const MixtureSteps& b) {
    return a.lengths_ == b.lengths_ && a.rules_ == b.rules_ && a.turns_.state() == b.turns_.state();
  }

 private:
  void append(std::int64_t begin, std::int64_t end, SlotKind kind, std::vector<TurnRange>& out) const;
  [[nodiscard]] std::int64_t samples_of_run() const;

  std::vector<std::int64_t> lengths_;
  MixtureRules rules_;
  WeightedTurns turns_;
  std::int64_t samples_;  // of the run, if weights stay; kNever where it has no end but by steps
};

}  // namespace rota::internal
