#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "order/mixture_schedule.hpp"
#include "order/order.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// How several datasets are mixed.
struct MixPlan {
  MixtureRules rules;
  WeightedTurns turns;
  std::vector<std::int64_t> given = {};  ///< the weights that the program began with, quantised
};

/// Of the shards of all of them: what lets equal numbers of shards be told apart.
[[nodiscard]] Fingerprint digest_lengths(std::span<const Order> orders);

/// What makes the order of a run: the order of its dataset, or of each of those that are mixed.
struct RunOrder {
  /// Throws as internal::ask_facts and ask_shard_lengths do.
  RunOrder(const Source& source, const LoaderOptions& options);
  /// The same for a mixture that is valid, and whose datasets can be joined. Throws Error{invalid_argument}
  /// for too many shards of all of them.
  RunOrder(const Mixture& mixture, const LoaderOptions& options);

  /// Of so many epochs, from the first on. Throws Error{unsupported} where nobody knows.
  [[nodiscard]] std::int64_t steps(const LoaderOptions& options, std::int64_t epochs) const;
  /// As Schedule::start_of. Throws Error{unsupported} for a mixture.
  [[nodiscard]] std::optional<Position> start_of(const LoaderOptions& options, const Position& at,
                                                 std::int64_t step) const;

  std::vector<Order> orders;
  std::vector<std::int64_t> firsts;  // [orders + 1]: the first sample of each, numbered one after the other
  std::vector<Field> fields;         // that the source said it has
  std::optional<MixPlan> mix_plan;

 private:
  void add(const Source& source, const LoaderOptions& options, std::uint64_t seed);
};

/// What a run reads, and in which order.
struct OrderedSource {
  std::shared_ptr<const Source> source;
  RunOrder order;
};

}  // namespace rota::internal
