#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "rota/types.hpp"

namespace rota::internal {

/// Integers with a sum of at most 65,536, near the ratios of `weights`: those with the smallest sum where
/// ratios are exact (within 1e-9), else those whose worst relative error is smallest. Positive weights become
/// at least 1, however small they are. Throws Error{invalid_argument} unless there are 1 to 4,096 weights
/// with a finite sum, none below 0 and one above.
std::vector<std::int64_t> quantise(std::span<const double> weights);

/// Throws what `quantise` throws.
void require_weights(std::span<const double> weights);
/// The same in O(weights), with a sum near 2,048, and of none below 1/2,048 of it exact: for weights that are
/// rounded on their way to others.
std::vector<std::int64_t> quantise_roughly(std::span<const double> weights);

/// Whose turn it is among the datasets of a mixture, from where their weights were last set on: one period of
/// as many turns as the sum of the weights, again and again. Any place is found without going through those
/// before. A value: copies share the period, 2 bytes a turn. *Immutable.*
///
/// The period is made by the earliest-deadline rule of Tijdeman, "The chairman assignment problem", Discrete
/// Mathematics 32 (1980): with k datasets, none is ever off its share by more than 1 - 1 / (2 k - 2).
class WeightedTurns {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// Throws Error{invalid_argument} for a state that no mixture has.
  explicit WeightedTurns(MixtureState state);

  [[nodiscard]] const MixtureState& state() const noexcept { return state_; }
  [[nodiscard]] std::size_t datasets() const noexcept { return state_.weights.size(); }
  /// How many of the first `taken` turns of the run are of dataset d; taken >= state().changed_at.
  [[nodiscard]] std::int64_t count(std::size_t d, std::int64_t taken) const noexcept;
  /// With how many turns of the run dataset d has had `count`: kNever for one of weight 0, and beyond 2^63.
  [[nodiscard]] std::int64_t reach(std::size_t d, std::int64_t count) const noexcept;
  /// The same weights, set after `taken` turns of `before`.
  [[nodiscard]] WeightedTurns behind(const WeightedTurns& before, std::int64_t taken) const;
  /// The state of one whose weights are set to `weights`, quantised, after `taken` turns.
  [[nodiscard]] MixtureState changed(std::vector<std::int64_t> weights, std::int64_t taken) const;

 private:
  using Places = std::vector<std::vector<std::uint16_t>>;  // [D][weight]: the turns of the period, ascending
  static Places make_period(const std::vector<std::int64_t>& weights, std::int64_t period);

  MixtureState state_;
  std::int64_t period_;
  std::shared_ptr<const Places> places_;
};

}  // namespace rota::internal
