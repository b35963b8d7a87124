#include "order/weighted_turns.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kMostDatasets = 4096;
constexpr std::int64_t kLongestPeriod = 65'536;
constexpr double kExact = 1e-9;

// The weights by such a power of two that the largest is 1 to 2, which changes no ratio; none that is above 0
// is so small that a ratio has no number.
std::vector<double> near_one(std::span<const double> weights) {
  require_weights(weights);
  constexpr double kLeast = 1e-300;
  const int exponent = std::ilogb(std::ranges::max(weights));
  std::vector<double> scaled;
  for (const double weight : weights) {
    scaled.push_back(weight == 0 ? 0 : std::max(std::scalbn(weight, -exponent), kLeast));
  }
  return scaled;
}

double worst_error(std::span<const double> weights, double sum, const std::vector<std::int64_t>& quantised,
                   std::int64_t period) {
  double worst = 0;
  for (std::size_t d = 0; d < weights.size(); ++d) {
    if (weights[d] == 0) continue;
    const double share = static_cast<double>(quantised[d]) / static_cast<double>(period);
    worst = std::max(worst, std::abs(share * sum / weights[d] - 1));
  }
  return worst;
}

__extension__ using i128 = __int128;

// Turn number `count` of a dataset, counted from 0, in a period of `period` turns counted from 1.
struct Task {
  std::int64_t at = 0;  // when it may have its turn at the earliest; once it may: by when, times the weight
  std::int64_t weight = 0;
  std::size_t dataset = 0;
  std::int64_t count = 0;
};

// The earlier one; the lower dataset where both are alike.
struct IsLater {
  bool operator()(const Task& a, const Task& b) const noexcept {
    const std::int64_t left = a.at * b.weight;
    const std::int64_t right = b.at * a.weight;
    return left != right ? left > right : a.dataset > b.dataset;
  }
};

MixtureState checked(MixtureState state) {
  const auto is_weight = [](std::int64_t weight) { return weight >= 0 && weight <= kLongestPeriod; };
  const bool has_weights = !state.weights.empty() && state.weights.size() <= kMostDatasets &&
                           std::ranges::all_of(state.weights, is_weight);
  const std::int64_t period =
      has_weights ? std::accumulate(state.weights.begin(), state.weights.end(), std::int64_t{0}) : 0;
  i128 taken = 0;
  for (const std::int64_t count : state.counts) taken += count;
  const bool has_counts = state.counts.size() == state.weights.size() && taken == state.changed_at &&
                          std::ranges::all_of(state.counts, [](std::int64_t count) { return count >= 0; });
  if (period >= 1 && period <= kLongestPeriod && has_counts) return state;
  throw failure(ErrorCode::invalid_argument,
                "go on with a mixture of weights {}, set after {} samples of which each dataset had {}: "
                "weights must be 0 to {} with a sum of as much, counts must add up",
                fmt::join(state.weights, ", "), state.changed_at, fmt::join(state.counts, ", "),
                kLongestPeriod);
}

}  // namespace

void require_weights(std::span<const double> weights) {
  const auto refuse = [&](std::string_view why) {
    throw failure(ErrorCode::invalid_argument, "set the weights of a mixture to {:.6}: {}",
                  fmt::join(weights, ", "), why);
  };
  if (weights.empty() || weights.size() > kMostDatasets) {
    throw failure(ErrorCode::invalid_argument,
                  "set {} weights of a mixture: there must be 1 to {}, one for each dataset", weights.size(),
                  kMostDatasets);
  }
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) refuse("each must be 0 or more");
    sum += weight;
  }
  if (sum == 0) refuse("one of them must be above 0");
  if (!std::isfinite(sum)) refuse("they must be finite, and so must their sum");
}

std::vector<std::int64_t> quantise(std::span<const double> weights) {
  const std::vector<double> scaled = near_one(weights);
  const double sum = std::accumulate(scaled.begin(), scaled.end(), 0.0);
  std::vector<std::int64_t> quantised(scaled.size());
  std::vector<std::int64_t> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t scale = 1; scale <= kLongestPeriod && least > kExact; ++scale) {
    std::int64_t period = 0;
    for (std::size_t d = 0; d < scaled.size(); ++d) {
      const std::int64_t rounded = std::llround(scaled[d] / sum * static_cast<double>(scale));
      quantised[d] = scaled[d] == 0 ? 0 : std::max<std::int64_t>(rounded, 1);
      period += quantised[d];
    }
    if (period > kLongestPeriod) break;
    const double error = worst_error(scaled, sum, quantised, period);
    if (error >= least) continue;
    least = error;
    best = quantised;
  }
  return best;
}

std::vector<std::int64_t> quantise_roughly(std::span<const double> weights) {
  constexpr double kPeriod = 2048;
  const std::vector<double> scaled = near_one(weights);
  const double sum = std::accumulate(scaled.begin(), scaled.end(), 0.0);
  std::vector<std::int64_t> rounded;
  std::int64_t common = 0;
  for (const double weight : scaled) {
    const std::int64_t parts = std::llround(weight / sum * kPeriod);
    rounded.push_back(weight == 0 ? 0 : std::max<std::int64_t>(parts, 1));
    common = std::gcd(common, rounded.back());
  }
  for (std::int64_t& weight : rounded) weight /= common;
  return rounded;
}

WeightedTurns::WeightedTurns(MixtureState state)
    : state_(checked(std::move(state))),
      period_(std::accumulate(state_.weights.begin(), state_.weights.end(), std::int64_t{0})),
      places_(std::make_shared<const Places>(make_period(state_.weights, period_))) {}

// All times are multiplied by 2 k - 2, to be integers.
WeightedTurns::Places WeightedTurns::make_period(const std::vector<std::int64_t>& weights,
                                                 std::int64_t period) {
  const std::int64_t rivals = std::ranges::count_if(weights, [](std::int64_t weight) { return weight > 0; });
  const std::int64_t scale = std::max<std::int64_t>(2 * rivals - 2, 1);
  Places places(weights.size());
  std::priority_queue<Task, std::vector<Task>, IsLater> waiting;
  std::priority_queue<Task, std::vector<Task>, IsLater> ready;
  const auto wait = [&](std::size_t d, std::int64_t count) {
    waiting.push({.at = period * (1 + scale * count), .weight = weights[d], .dataset = d, .count = count});
  };
  for (std::size_t d = 0; d < weights.size(); ++d) {
    places[d].reserve(static_cast<std::size_t>(weights[d]));
    if (weights[d] > 0) wait(d, 0);
  }
  for (std::int64_t turn = 1; turn <= period; ++turn) {
    while (!waiting.empty() && waiting.top().at <= turn * scale * waiting.top().weight) {
      Task task = waiting.top();
      waiting.pop();
      task.at = scale * (task.count + 1) - 1;
      ready.push(task);
    }
    assert(!ready.empty());
    const Task next = ready.top();
    ready.pop();
    places[next.dataset].push_back(static_cast<std::uint16_t>(turn - 1));
    wait(next.dataset, next.count + 1);
  }
  return places;
}

std::int64_t WeightedTurns::count(std::size_t d, std::int64_t taken) const noexcept {
  assert(taken >= state_.changed_at);
  const std::int64_t since = taken - state_.changed_at;
  const std::vector<std::uint16_t>& places = (*places_)[d];
  const auto before = std::ranges::lower_bound(places, since % period_);
  return state_.counts[d] + since / period_ * state_.weights[d] + (before - places.begin());
}

std::int64_t WeightedTurns::reach(std::size_t d, std::int64_t count) const noexcept {
  if (count <= state_.counts[d]) return state_.changed_at;
  const std::int64_t weight = state_.weights[d];
  if (weight == 0) return kNever;
  const std::int64_t last = count - state_.counts[d] - 1;  // the turn that makes it as many
  const i128 turns =
      i128{last / weight} * period_ + (*places_)[d][static_cast<std::size_t>(last % weight)] + 1;
  const i128 taken = turns + state_.changed_at;
  return taken < kNever ? static_cast<std::int64_t>(taken) : kNever;
}

WeightedTurns WeightedTurns::behind(const WeightedTurns& before, std::int64_t taken) const {
  WeightedTurns behind = *this;
  behind.state_ = checked(before.changed(state_.weights, taken));
  return behind;
}

MixtureState WeightedTurns::changed(std::vector<std::int64_t> weights, std::int64_t taken) const {
  MixtureState state{.weights = std::move(weights), .changed_at = taken};
  for (std::size_t d = 0; d < datasets(); ++d) state.counts.push_back(count(d, taken));
  return state;
}

}  // namespace rota::internal
