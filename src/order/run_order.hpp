#pragma once

// What a run goes through, and by which steps. Next: planner.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/option.hpp"
#include "order/mixture_steps.hpp"
#include "order/order.hpp"
#include "order/steps.hpp"
#include "rota/fingerprint.hpp"
#include "rota/run.hpp"

namespace rota::internal {

/// Of one dataset, or of a mixture.
struct RunSteps : std::variant<Steps, MixtureSteps> {
  using variant::variant;
};

/// What makes the order of a run: the order of its dataset, or of each of those that are mixed. *Immutable.*
struct RunOrder {
  std::vector<Order> orders;
  std::vector<std::int64_t> firsts;  // [orders + 1]: the first sample of each, numbered one after the other
  Fingerprint lengths;               // of the shards of all of them: what lets equal numbers be told apart
  Fingerprint fingerprint;           // of the data
  std::uint64_t seed = 0;
  BlockShape block;
  std::vector<std::int64_t> given;  // the weights that the program began with, quantised
};

/// Refuses what no run has, of the options that a loader has, too.
void check(const RunOptions& options, const OptionCheck& with);

/// A position, and what else it takes to go there.
struct RunPlace {
  Position position;
  std::optional<MixtureState> mixture = {};  // of a run that mixes
  Position origin = {};                      // from which on batches were as they were there
};

/// What is behind a Run.
struct RunAccess {
  static const std::shared_ptr<const RunOrder>& order(const Run& run) { return run.order_; }
  static const RunSteps& steps(const Run& run) { return *run.steps_; }
  static Tail tail(const Run& run) {
    return std::visit([](const auto& steps) { return steps.tail(); }, *run.steps_);
  }
  static std::int64_t epochs(const Run& run) {
    return std::visit([](const auto& steps) { return steps.epochs(); }, *run.steps_);
  }
  static Position origin(const Run& run) { return run.origin_; }
  /// Why nothing is known of what came before that.
  static std::string past(const Run& run);
  /// Behind a batch of this run, which may be before its place, but not before its origin.
  static void go_behind(Run& run, const Position& end) { run.position_ = end; }
  static void require_mixture(const Run& run, std::string_view verb, std::size_t datasets);
  /// Goes there, behind batches of `place` as they are in this run, or, unless `are_same`, were of others.
  static void go_to(Run& run, const RunPlace& place, bool are_same);
  /// As Run::set_weights, of weights that are quantised.
  static void set_weights(Run& run, std::vector<std::int64_t> weights);
  /// As the constructor, of these weights, quantised.
  static Run make(const std::vector<RunData>& data, const RunOptions& how, std::vector<std::int64_t> given);
};

}  // namespace rota::internal
