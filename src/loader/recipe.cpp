#include "loader/recipe.hpp"

#include <fmt/format.h>

#include <numeric>

#include "rota/error.hpp"
#include "rota/permutation.hpp"

namespace rota {
namespace {

ShardPlan make_plan(const Source& source, const LoaderOptions& options) {
  const auto lengths = source.shard_lengths(options.shards);
  if (lengths.empty()) return ShardPlan::equal(source.size(), options.shards, options.interleave);
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(lengths.size()) != options.shards || sum != source.size()) {
    throw Error(
        ErrorCode::callback,
        fmt::format("make a loader: the source splits its {} samples into {} shards of {} samples in all; it "
                    "was asked for {} shards",
                    source.size(), lengths.size(), sum, options.shards));
  }
  return ShardPlan::ragged(lengths, options.interleave);
}

std::vector<double> weights_of(const Mixture& mixture) {
  std::vector<double> weights;
  for (const WeightedSource& dataset : mixture.datasets) weights.push_back(dataset.weight);
  return weights;
}

}  // namespace

void Mixture::validate() const {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "mix datasets: " + why);
  };
  (void)quantise(weights_of(*this));
  for (std::size_t d = 0; d < datasets.size(); ++d) {
    if (!datasets[d].source) refuse(fmt::format("number {} is none (a null pointer)", d));
    if (datasets[d].source->size() == 0) refuse(fmt::format("number {} has no samples; leave it out", d));
  }
  const bool ends_by_steps = end == MixtureEnd::steps;
  if (ends_by_steps && steps < 1) refuse(fmt::format("steps is {}; it must be 1 or more", steps));
  if (!ends_by_steps && steps != 0) {
    refuse(fmt::format("steps is {}; leave it, or let the mixture end by MixtureEnd::steps", steps));
  }
}

namespace internal {

Recipe::Recipe(const Source& source, const LoaderOptions& options) : firsts{0} {
  add(source, options, options.seed);
}

Recipe::Recipe(const Mixture& mixture, const LoaderOptions& options) : firsts{0} {
  for (std::size_t d = 0; d < mixture.datasets.size(); ++d) {
    const auto seed = derive_key(options.seed, 0, Purpose::dataset, static_cast<std::int64_t>(d)).low;
    add(*mixture.datasets[d].source, options, seed);
  }
  MixtureState state{.weights = quantise(weights_of(mixture)),
                     .counts = std::vector<std::int64_t>(mixture.datasets.size())};
  mixing = Mixing{
      .rules = {.end = mixture.end, .steps = mixture.steps, .passes = options.epochs, .tail = options.tail},
      .turns = WeightedTurns(std::move(state))};
}

void Recipe::add(const Source& source, const LoaderOptions& options, std::uint64_t seed) {
  orders.emplace_back(make_plan(source, options), options.shuffle, seed, options.block);
  firsts.push_back(firsts.back() + source.size());
}

}  // namespace internal
}  // namespace rota
