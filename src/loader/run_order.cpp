#include "loader/run_order.hpp"

#include <fmt/format.h>

#include <string_view>

#include "order/permutation.hpp"
#include "rota/error.hpp"
#include "source/source_facts.hpp"
#include "values/option.hpp"

namespace rota {
namespace {

constexpr std::string_view kTask = "make a loader";

internal::ShardPlan make_plan(const Source& source, std::int64_t size, const LoaderOptions& options) {
  const auto lengths = internal::ask_shard_lengths(source, size, options.shards, kTask);
  if (lengths.empty()) return internal::ShardPlan::equal(size, options.shards, options.interleave);
  return internal::ShardPlan::ragged(lengths, options.interleave);
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
  constexpr internal::OptionCheck kMixCheck("mix datasets");
  kMixCheck.one_of("end", end, {"first_exhausted", "all_exhausted", "steps"});
  (void)internal::quantise(weights_of(*this));
  for (std::size_t d = 0; d < datasets.size(); ++d) {
    if (!datasets[d].source) refuse(fmt::format("number {} is none (a null pointer)", d));
    const Source& source = *datasets[d].source;
    if (internal::ask("mix datasets", "size", [&] { return source.size(); }) == 0)
      refuse(fmt::format("number {} has no samples; leave it out", d));
  }
  const bool ends_by_steps = end == MixtureEnd::steps;
  if (ends_by_steps) kMixCheck.in_range("steps", steps, 1);
  if (!ends_by_steps && steps != 0) {
    refuse(fmt::format("steps is {}; leave it, or let the mixture end by MixtureEnd::steps", steps));
  }
}

namespace internal {

RunOrder::RunOrder(const Source& source, const LoaderOptions& options) : firsts{0} {
  add(source, options, options.seed);
}

RunOrder::RunOrder(const Mixture& mixture, const LoaderOptions& options) : firsts{0} {
  OptionCheck(kTask).in_range("shards", options.shards, 1, kMaxShards / std::ssize(mixture.datasets),
                              "all datasets together have at most 2^24");
  for (std::size_t d = 0; d < mixture.datasets.size(); ++d) {
    const auto seed = derive_key(options.seed, 0, Purpose::dataset, static_cast<std::int64_t>(d)).low;
    add(*mixture.datasets[d].source, options, seed);
  }
  auto weights = quantise(weights_of(mixture));
  MixtureState state{.weights = weights, .counts = std::vector<std::int64_t>(mixture.datasets.size())};
  mix_plan = MixPlan{
      .rules = {.end = mixture.end, .steps = mixture.steps, .passes = options.epochs, .tail = options.tail},
      .turns = WeightedTurns(std::move(state)),
      .given = std::move(weights)};
}

void RunOrder::add(const Source& source, const LoaderOptions& options, std::uint64_t seed) {
  SourceFacts facts = ask_facts(source, kTask);
  orders.emplace_back(make_plan(source, facts.size, options), options.shuffle, seed, options.block);
  firsts.push_back(firsts.back() + facts.size);
  fields = std::move(facts.fields);
}

}  // namespace internal
}  // namespace rota
