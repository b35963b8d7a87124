#include "loader/run_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/permutation.hpp"
#include "source/source_facts.hpp"

namespace rota {
namespace {

constexpr std::string_view kTask = "make a loader";

Error no_units(std::string_view what, std::string_view units, std::string_view method) {
  return internal::failure(ErrorCode::invalid_argument,
                           "{}: {} are to be {}, and the source has none, or does not say where they begin "
                           "({}); give a number",
                           kTask, what, units, method);
}

internal::ShardPlan make_plan(const Source& source, std::int64_t size, const LoaderOptions& options) {
  std::vector<std::int64_t> lengths;
  if (options.shards == kFileShards) {
    lengths = internal::ask_part_sizes(source, size, kTask);
    if (lengths.empty()) throw no_units("shards", "files", "part_sizes");
  } else if (options.shards == kUnitShards) {
    lengths = internal::ask_unit_sizes(source, size, kTask);
    if (size == 0) lengths = {0};
    if (lengths.empty()) throw no_units("shards", "chunks of several samples", "unit_sizes");
  } else {
    lengths = internal::ask_shard_lengths(source, size, options.shards, kTask);
  }
  if (lengths.empty()) return internal::ShardPlan::equal(size, options.shards, options.interleave);
  return internal::ShardPlan::ragged(lengths, options.interleave);
}

// Where the units of the source begin, and where the last one ends.
internal::BlockBegins find_units(const Source& source, std::int64_t size) {
  const std::vector<std::int64_t> sizes = internal::ask_unit_sizes(source, size, kTask);
  if (sizes.empty() && size > 0) throw no_units("blocks", "chunks of several samples", "unit_sizes");
  std::vector<std::int64_t> begins{0};
  for (const std::int64_t samples : sizes) {
    if (samples > 0) begins.push_back(begins.back() + samples);
  }
  return std::make_shared<const std::vector<std::int64_t>>(std::move(begins));
}

std::vector<double> weights_of(const Mixture& mixture) {
  std::vector<double> weights;
  for (const Mixture::Part& dataset : mixture.datasets) weights.push_back(dataset.weight);
  return weights;
}

}  // namespace

void Mixture::validate() const {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "mix datasets: " + why);
  };
  constexpr internal::OptionCheck kMixCheck("mix datasets");
  kMixCheck.one_of("end", end, internal::kMixtureEnds);
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
    refuse(fmt::format("steps is {}; leave it, or let its end be steps", steps));
  }
}

namespace internal {

Fingerprint digest_lengths(std::span<const Order> orders) {
  FingerprintBuilder digest;
  for (const Order& order : orders) {
    const ShardPlan& plan = order.plan();
    if (plan.is_equal()) {
      digest.add("equal");
      continue;
    }
    for (std::int64_t s = 0; s < plan.shards(); ++s) digest.add(plan.length(s));
  }
  for (const Order& order : orders) {
    if (order.block_begins()) digest.add("blocks").add(*order.block_begins());
  }
  return digest.finish();
}

RunOrder::RunOrder(const Source& source, const LoaderOptions& options) : firsts{0} {
  add(source, options, options.seed);
}

RunOrder::RunOrder(const Mixture& mixture, const LoaderOptions& options) : firsts{0} {
  if (options.shards < 0) {
    throw failure(
        ErrorCode::unsupported,
        "{}: datasets of a mixture have as many shards each, which files and units cannot be; give a "
        "number of shards",
        kTask);
  }
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
  const bool takes_units = options.shuffle == Shuffle::block && options.block.samples == 0;
  orders.emplace_back(make_plan(source, facts.size, options), options.shuffle, seed, options.block,
                      takes_units ? find_units(source, facts.size) : nullptr);
  firsts.push_back(firsts.back() + facts.size);
  fields = std::move(facts.fields);
}

std::int64_t RunOrder::steps(const LoaderOptions& options, std::int64_t epochs) const {
  if (mix_plan && mix_plan->rules.end == MixtureEnd::steps) return mix_plan->rules.steps;
  if (mix_plan || epochs == kEndless) {
    throw Error(ErrorCode::unsupported,
                mix_plan ? "count a loader's steps: datasets of a mixture have epochs of their own"
                         : "count a loader's steps: it has no last epoch");
  }
  const std::int64_t size = options.global_batch_size;
  const bool are_joined = options.tail == Tail::carry;
  __extension__ using i128 = __int128;
  const i128 samples = are_joined ? i128{firsts.back()} * epochs : firsts.back();
  const i128 steps =
      (samples + (options.tail == Tail::drop ? 0 : size - 1)) / size * (are_joined ? 1 : epochs);
  return static_cast<std::int64_t>(std::min<i128>(steps, std::numeric_limits<std::int64_t>::max()));
}

std::optional<Position> RunOrder::start_of(const LoaderOptions& options, const Position& at,
                                           std::int64_t step) const {
  if (mix_plan) {
    throw failure(ErrorCode::unsupported,
                  "find step {}: of a mixture, whose datasets have epochs of their own", step);
  }
  return Schedule(orders.front(), options.tail, options.epochs).start_of(at, options.global_batch_size, step);
}

}  // namespace internal
}  // namespace rota
