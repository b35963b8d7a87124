#include "order/run_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/enumerators.hpp"
#include "core/failure.hpp"

namespace rota {

using internal::Order;

namespace {

constexpr internal::OptionCheck kCheck("make a run");

// Of shards that are files or units, or of blocks.
void require_sum(std::span<const std::int64_t> lengths, std::int64_t samples, std::string_view what) {
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    if (length >= 0 && length <= samples - sum) {
      sum += length;
      continue;
    }
    throw internal::failure(ErrorCode::invalid_argument,
                            "make a run of {} samples: one of the {} {} has {}, behind {}", samples,
                            lengths.size(), what, length, sum);
  }
  if (sum == samples) return;
  throw internal::failure(ErrorCode::invalid_argument, "make a run of {} samples: all {} {} together have {}",
                          samples, lengths.size(), what, sum);
}

bool takes_units(const RunOptions& options) {
  return options.shuffle == Shuffle::block && options.block.samples == 0;
}

void require_data(const std::vector<RunData>& data, const RunOptions& options) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "make a run: " + why);
  };
  const bool is_mixture = !options.weights.empty();
  const std::size_t wanted = is_mixture ? options.weights.size() : 1;
  if (data.size() != wanted)
    refuse(fmt::format("{} datasets for {} weights", data.size(), options.weights.size()));
  kCheck.in_range("shards", options.shards, 1, kMaxShards / std::max<std::int64_t>(std::ssize(data), 1),
                  "all datasets together have at most 2^24");
  std::int64_t all = 0;
  for (std::size_t d = 0; d < data.size(); ++d) {
    const RunData& one = data[d];
    kCheck.in_range("samples", one.samples, is_mixture ? 1 : 0, kMaxCount - all,
                    is_mixture ? "of a mixture's dataset" : "");
    all += one.samples;
    if (!one.shard_lengths.empty()) require_sum(one.shard_lengths, one.samples, "shards");
    if (!one.shard_lengths.empty() && std::ssize(one.shard_lengths) != options.shards)
      refuse(fmt::format("dataset {} has {} shards, and not {} as the option says", d,
                         one.shard_lengths.size(), options.shards));
    if (takes_units(options)) require_sum(one.block_lengths, one.samples, "blocks");
    if (!takes_units(options) && !one.block_lengths.empty())
      refuse("block_lengths are of shuffle block, with blocks of 0 samples, which are units");
  }
}

// All of a mixture's, or none.
void require_names(const std::vector<RunData>& data) {
  std::vector<std::string> names;
  names.reserve(data.size());
  for (const RunData& one : data) names.push_back(one.name);
  std::ranges::sort(names);
  if (!names.back().empty() && (names.front().empty() || std::ranges::adjacent_find(names) != names.end()))
    throw Error(ErrorCode::invalid_argument, "make a run: give each dataset a name, each another, or none");
}

// As RunOptions::shards says.
RunOptions resolved(RunOptions options, const std::vector<RunData>& data) {
  options.validate();
  const bool is_plain = options.shuffle == Shuffle::none && options.interleave == 0;
  if (options.shards == 0 && data.size() == 1) options.shards = std::ssize(data.front().shard_lengths);
  if (options.shards == 0) options.shards = is_plain ? 1 : 256;
  return options;
}

// Where blocks that are units begin, and where the last one ends.
internal::BlockBegins begins_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> begins{0};
  for (const std::int64_t samples : lengths) {
    if (samples > 0) begins.push_back(begins.back() + samples);
  }
  return std::make_shared<const std::vector<std::int64_t>>(std::move(begins));
}

// As Source::fingerprint of sources that are known by their sizes.
Fingerprint known_by(const RunData& one) {
  return one.fingerprint ? *one.fingerprint : FingerprintBuilder().add("source").add(one.samples).finish();
}

// As `join` has it.
Fingerprint joined(const std::vector<Fingerprint>& known) {
  FingerprintBuilder builder;
  builder.add("join");
  for (const Fingerprint& one : known) builder.add(one);
  return builder.finish();
}

}  // namespace

SampleId internal::RunOrder::instead_of(SampleId id, std::span<const SampleId> left_out) const {
  const std::int64_t end = *std::ranges::upper_bound(firsts, id.value);
  const std::int64_t first = *std::prev(std::ranges::upper_bound(firsts, id.value));
  do {
    id.value = id.value + 1 == end ? first : id.value + 1;
  } while (std::ranges::binary_search(left_out, id));
  return id;
}

Fingerprint internal::digest_lengths(std::span<const Order> orders) {
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

void internal::check(const RunOptions& options, const OptionCheck& with) {
  with.in_range("global_batch_size", options.global_batch_size, 1, kMaxBatchSize);
  with.in_range("shards", options.shards, 0, kMaxShards, "0 = as fits the shuffle");
  with.in_range("interleave", options.interleave, 0, kUnbounded, "0 = all shards");
  with.one_of("shuffle", options.shuffle, kShuffles);
  with.in_range("block.samples", options.block.samples, 0, kUnbounded, "0 = the source's units");
  with.in_range("block.blocks", options.block.blocks, 1);
  with.one_of("tail", options.tail, kTails);
  with.in_range("epochs", options.epochs, 1);
}

void RunOptions::validate() const {
  internal::check(*this, kCheck);
  kCheck.one_of("end", end, internal::kMixtureEnds);
  const bool ends_by_steps = end == MixtureEnd::steps;
  if (weights.empty() && (end != MixtureEnd::first_exhausted || steps != 0))
    kCheck.refuse(steps != 0 ? "steps" : "end", "set", "of a mixture: give weights");
  if (ends_by_steps) kCheck.in_range("steps", steps, 1);
  if (!ends_by_steps && steps != 0)
    kCheck.refuse("steps", std::to_string(steps), "left out, or end be steps");
}

bool internal::RunAccess::batch(const Run& run, GlobalBatch& out) {
  if (const auto again = open(run); !again.empty()) {
    const std::int64_t real = std::min(std::ssize(again), run.global_batch_size());
    if (real == run.global_batch_size() || tail(run) != Tail::drop) {
      out.start = out.next = run.position();
      out.real = real;
      out.size = tail(run) == Tail::pad ? run.global_batch_size() : real;
      out.turn_ranges.clear();
      for (std::int64_t slot = 0; slot < out.size; ++slot) {
        const OpenTurn& one = again[static_cast<std::size_t>(slot % real)];
        out.turn_ranges.push_back({.epoch = one.epoch,
                                   .begin = one.turn,
                                   .end = one.turn + 1,
                                   .kind = slot < real ? SlotKind::sample : SlotKind::pad,
                                   .dataset = static_cast<std::int32_t>(one.dataset)});
      }
      return true;
    }
  }
  return run.path_->batch(run.position_, out);
}

Run internal::RunAccess::make(const std::vector<RunData>& data, const RunOptions& how,
                              std::vector<std::int64_t> given, std::vector<std::size_t> absent) {
  const RunOptions options = resolved(how, data);
  require_data(data, options);
  require_names(data);
  auto order = std::make_shared<RunOrder>();
  const bool is_mixture = !given.empty();
  order->firsts = {0};
  for (std::size_t d = 0; d < data.size(); ++d) {
    const RunData& one = data[d];
    const std::uint64_t seed =
        is_mixture ? derive_key(options.seed, 0, Purpose::dataset, static_cast<std::int64_t>(d)).low
                   : options.seed;
    order->orders.emplace_back(
        one.shard_lengths.empty() ? ShardPlan::equal(one.samples, options.shards, options.interleave)
                                  : ShardPlan::ragged(one.shard_lengths, options.interleave),
        options.shuffle, seed, options.block, takes_units(options) ? begins_of(one.block_lengths) : nullptr);
    order->firsts.push_back(order->firsts.back() + one.samples);
    order->known.push_back(known_by(one));
    if (one.own_fingerprint) order->taken_for.emplace_back(known_by(one), *one.own_fingerprint);
    if (is_mixture && !one.name.empty()) order->names.push_back(one.name);
  }
  order->lengths = digest_lengths(order->orders);
  order->fingerprint = options.fingerprint ? *options.fingerprint
                       : is_mixture        ? joined(order->known)
                                           : order->known.front();
  order->seed = options.seed;
  order->block = options.block;
  order->absent = std::move(absent);
  order->given = given;
  order->given_batch_size = options.global_batch_size;
  Stretch first{.begin = {}, .batch_size = options.global_batch_size, .steps = nullptr};
  if (is_mixture) {
    std::vector<std::int64_t> lengths(data.size());
    std::ranges::transform(data, lengths.begin(), &RunData::samples);
    const MixtureRules rules{
        .end = options.end, .steps = options.steps, .passes = options.epochs, .tail = options.tail};
    WeightedTurns turns({.weights = std::move(given), .counts = std::vector<std::int64_t>(data.size())});
    first.steps = std::make_shared<const RunSteps>(MixtureSteps(std::move(lengths), rules, std::move(turns)));
  } else {
    first.steps = std::make_shared<const RunSteps>(Steps(order->firsts.back(), options.tail, options.epochs));
  }
  auto path =
      std::make_shared<const RunPath>(std::move(first), true, std::make_shared<const RunPlan>(options.plan));
  return {std::move(order), std::move(path)};
}

}  // namespace rota
