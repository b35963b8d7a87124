#include "rota/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/planner.hpp"
#include "order/run_order.hpp"

namespace rota {

using internal::MixtureSteps;
using internal::Order;
using internal::Planner;
using internal::RunAccess;
using internal::RunOrder;
using internal::RunSteps;
using internal::ShardPlan;
using internal::Steps;

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
    if (is_mixture && !one.shard_lengths.empty() && std::ssize(one.shard_lengths) != options.shards)
      refuse(
          fmt::format("dataset {} has {} shards, and not {} as the option says; those of a mixture have "
                      "as many shards each",
                      d, one.shard_lengths.size(), options.shards));
    const bool takes_units = options.shuffle == Shuffle::block && options.block.samples == 0;
    if (takes_units) require_sum(one.block_lengths, one.samples, "blocks");
    if (!takes_units && !one.block_lengths.empty())
      refuse("block_lengths are of shuffle block, with blocks of 0 samples, which are units");
  }
}

// As RunOptions::shards says.
RunOptions resolved(RunOptions options) {
  options.validate();
  const bool is_plain = options.shuffle == Shuffle::none && options.interleave == 0;
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

// As Source::fingerprint of sources that are known by their sizes, and as `join` has it.
Fingerprint digest_sizes(const std::vector<RunData>& data) {
  const auto of = [](const RunData& one) {
    return FingerprintBuilder().add("source").add(one.samples).finish();
  };
  if (data.size() == 1) return of(data.front());
  FingerprintBuilder builder;
  builder.add("join");
  for (const RunData& one : data) builder.add(of(one));
  return builder.finish();
}

template <typename Call>
auto ask(const Run& run, Call call) {
  return std::visit(call, RunAccess::steps(run));
}

}  // namespace

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
  if (weights.empty() && (ends_by_steps || steps != 0))
    kCheck.refuse("steps", "set", "of a mixture: give weights");
  kCheck.in_range("steps", steps, ends_by_steps ? 1 : 0, ends_by_steps ? internal::kUnbounded : 0);
}

// ---- how runs are made ----

Run::Run(std::shared_ptr<const RunOrder> order, std::shared_ptr<const RunSteps> steps,
         std::int64_t global_batch_size)
    : order_(std::move(order)), steps_(std::move(steps)), global_batch_size_(global_batch_size) {}

Run::Run(std::int64_t samples, const RunOptions& options)
    : Run(std::vector<RunData>{{.samples = samples}}, options) {}

Run::Run(const std::vector<RunData>& data, const RunOptions& options)
    : Run(RunAccess::make(
          data, options,
          options.weights.empty() ? std::vector<std::int64_t>() : internal::quantise(options.weights))) {}

Run internal::RunAccess::make(const std::vector<RunData>& data, const RunOptions& how,
                              std::vector<std::int64_t> given) {
  const RunOptions options = resolved(how);
  require_data(data, options);
  auto order = std::make_shared<RunOrder>();
  const bool is_mixture = !given.empty();
  order->firsts = {0};
  for (std::size_t d = 0; d < data.size(); ++d) {
    const RunData& one = data[d];
    const std::uint64_t seed =
        is_mixture ? derive_key(options.seed, 0, Purpose::dataset, static_cast<std::int64_t>(d)).low
                   : options.seed;
    const bool takes_units = options.shuffle == Shuffle::block && options.block.samples == 0;
    order->orders.emplace_back(
        one.shard_lengths.empty() ? ShardPlan::equal(one.samples, options.shards, options.interleave)
                                  : ShardPlan::ragged(one.shard_lengths, options.interleave),
        options.shuffle, seed, options.block, takes_units ? begins_of(one.block_lengths) : nullptr);
    order->firsts.push_back(order->firsts.back() + one.samples);
  }
  order->lengths = digest_lengths(order->orders);
  order->fingerprint = options.fingerprint ? *options.fingerprint : digest_sizes(data);
  order->seed = options.seed;
  order->block = options.block;
  order->given = given;
  if (!is_mixture) {
    auto steps = std::make_shared<const RunSteps>(Steps(order->firsts.back(), options.tail, options.epochs));
    return {std::move(order), std::move(steps), options.global_batch_size};
  }
  std::vector<std::int64_t> lengths(data.size());
  std::ranges::transform(data, lengths.begin(), &RunData::samples);
  const MixtureRules rules{
      .end = options.end, .steps = options.steps, .passes = options.epochs, .tail = options.tail};
  WeightedTurns turns({.weights = std::move(given), .counts = std::vector<std::int64_t>(data.size())});
  auto steps = std::make_shared<const RunSteps>(MixtureSteps(std::move(lengths), rules, std::move(turns)));
  return {std::move(order), std::move(steps), options.global_batch_size};
}

RunOptions Run::options() const {
  const Order& order = order_->orders.front();
  RunOptions options{.global_batch_size = global_batch_size_,
                     .shards = order.plan().shards(),
                     .interleave = order.plan().interleave(),
                     .shuffle = order.shuffle(),
                     .seed = order_->seed,
                     .block = order_->block,
                     .tail = RunAccess::tail(*this),
                     .epochs = RunAccess::epochs(*this),
                     .fingerprint = order_->fingerprint};
  if (const auto* mixed = std::get_if<MixtureSteps>(steps_.get())) {
    options.weights.assign(mixture()->weights.begin(), mixture()->weights.end());
    options.end = mixed->rules().end;
    options.steps = mixed->rules().steps;
  }
  return options;
}

std::vector<RunData> Run::data() const {
  std::vector<RunData> all;
  for (const Order& order : order_->orders) {
    const ShardPlan& plan = order.plan();
    RunData one{.samples = plan.samples()};
    for (std::int64_t s = 0; s < plan.shards() && !plan.is_equal(); ++s)
      one.shard_lengths.push_back(plan.length(s));
    if (order.block_begins()) {
      const auto& begins = *order.block_begins();
      for (std::size_t b = 1; b < begins.size(); ++b) one.block_lengths.push_back(begins[b] - begins[b - 1]);
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::int64_t Run::samples() const noexcept { return order_->firsts.back(); }

// ---- what they answer ----

namespace internal {

RunMemory& RunMemory::operator=(const RunMemory& /*other*/) noexcept {
  give_back(nullptr);
  return *this;
}
RunMemory::~RunMemory() { give_back(nullptr); }
std::unique_ptr<Planner> RunMemory::take() const noexcept {
  return std::unique_ptr<Planner>(planner_.exchange(nullptr));
}
void RunMemory::give_back(std::unique_ptr<Planner> planner) const noexcept {
  const std::unique_ptr<Planner> before(planner_.exchange(planner.release()));
}

}  // namespace internal

template <typename Work>
auto Run::with_planner(Work work) const {
  std::unique_ptr<Planner> planner = memory_.take();
  if (!planner) planner = std::make_unique<Planner>(order_);
  auto made = work(*planner);
  memory_.give_back(std::move(planner));
  return made;
}

bool Run::slice(RunSlice& out, World world, Split split) const {
  world.validate();
  return with_planner([&](Planner& planner) { return planner.plan(*this, world, split, out); });
}

std::optional<BatchSlot> Run::when(SampleId id, std::int64_t epoch, int ranks, Split split) const {
  return with_planner([&](Planner& planner) { return planner.when(*this, id, epoch, ranks, split); });
}

void Run::cursors(std::int64_t first, std::span<std::int64_t> out) const {
  with_planner([&](Planner& planner) { return planner.cursors(*this, first, out), 0; });
}

bool Run::advance() {
  internal::GlobalBatch batch;
  if (!ask(*this, [&](const auto& steps) { return steps.batch(position_, global_batch_size_, batch); }))
    return false;
  position_ = batch.next;
  return true;
}

void Run::advance(const RunSlice& slice) {
  const Position end{.epoch = slice.start.epoch, .consumed = slice.end.consumed, .step = slice.start.step};
  std::visit([&](const auto& steps) { steps.require(end); }, *steps_);
  if (slice.end.step == position_.step + 1) {
    position_ = slice.end;
    return;
  }
  throw internal::failure(
      ErrorCode::invalid_argument,
      "go behind a batch of step {}: the run is at step {}; take slices one after the other",
      slice.start.step, position_.step);
}

bool Run::is_over() const {
  internal::GlobalBatch batch;
  return !ask(*this, [&](const auto& steps) { return steps.batch(position_, global_batch_size_, batch); });
}

std::string internal::RunAccess::past(const Run& run) {
  const Position& at = run.origin_;
  return fmt::format(
      "it came before epoch {}, sample {}, step {}, from which on batches are of {} samples{}; what they "
      "were "
      "before is not known; ask where the run was then",
      at.epoch, at.consumed, at.step, run.global_batch_size_,
      run.mixture() != nullptr
          ? fmt::format(", and weights as they were set at sample {}", run.mixture()->changed_at)
          : "");
}

std::optional<Position> Run::position_of(std::int64_t step) const {
  if (step < 0) throw internal::failure(ErrorCode::out_of_range, "find step {}: steps begin with 0", step);
  if (step < origin_.step)
    throw internal::failure(ErrorCode::unsupported, "find step {}: {}", step, RunAccess::past(*this));
  const auto at =
      ask(*this, [&](const auto& steps) { return steps.start_of(origin_, global_batch_size_, step); });
  return at && at->is_countable() ? at : std::nullopt;
}

std::optional<Run> Run::at(std::int64_t step) const {
  const auto position = position_of(step);
  if (!position) return std::nullopt;
  std::optional<Run> run(*this);
  run->position_ = *position;
  return run;
}

std::int64_t Run::steps_per_epoch() const {
  if (const auto* steps = std::get_if<Steps>(steps_.get()))
    return Steps(samples(), steps->tail(), 1).count(global_batch_size_);
  return steps();
}
std::int64_t Run::steps() const {
  return ask(*this, [&](const auto& steps) { return steps.count(global_batch_size_); });
}

const MixtureState* Run::mixture() const noexcept {
  const auto* mixed = std::get_if<MixtureSteps>(steps_.get());
  return mixed == nullptr ? nullptr : &mixed->turns().state();
}

// ---- how they are moved ----

void internal::RunAccess::require_mixture(const Run& run, std::string_view verb, std::size_t datasets) {
  const std::size_t own = run.mixture() == nullptr ? 0 : run.order_->orders.size();
  if (own == datasets && own > 0) return;
  throw failure(ErrorCode::invalid_argument, "{} of a mixture of {} datasets: this run {}", verb, datasets,
                own == 0 ? "mixes none" : fmt::format("mixes {}", own));
}

void internal::RunAccess::go_to(Run& run, const RunPlace& place, bool are_same) {
  std::shared_ptr<const RunSteps> steps = run.steps_;
  if (place.mixture || run.mixture() != nullptr) {
    require_mixture(run, "go to a place", place.mixture ? place.mixture->weights.size() : 0);
    if (*place.mixture != *run.mixture())
      steps = std::make_shared<const RunSteps>(std::get<MixtureSteps>(*steps).with(*place.mixture));
  }
  const bool lead = std::visit(
      [&](const auto& of) {
        of.require(place.position);
        return are_same && of.lead(place.origin, run.global_batch_size_, place.position);
      },
      *steps);
  run.steps_ = std::move(steps);
  run.position_ = place.position;
  run.origin_ = lead ? place.origin : place.position;
}

void Run::seek(const Position& position) {
  RunAccess::go_to(
      *this, {position, mixture() != nullptr ? std::optional(*mixture()) : std::nullopt, origin_}, true);
}
void Run::seek(const Position& position, const MixtureState& mixture) {
  const bool are_same = this->mixture() != nullptr && mixture == *this->mixture();
  RunAccess::go_to(*this, {position, mixture, are_same ? origin_ : Position()}, true);
}

void Run::restart() {
  if (mixture() == nullptr) return RunAccess::go_to(*this, {}, true);
  seek({}, {.weights = order_->given, .counts = std::vector<std::int64_t>(order_->given.size())});
}

void Run::set_global_batch_size(std::int64_t size) {
  internal::OptionCheck("set a batch size").in_range("global_batch_size", size, 1, kMaxBatchSize);
  if (size == std::exchange(global_batch_size_, size)) return;
  origin_ = position_;
}

void Run::set_weights(std::span<const double> weights) {
  RunAccess::require_mixture(*this, "set weights", weights.size());
  RunAccess::set_weights(*this, internal::quantise(weights));
}

void internal::RunAccess::set_weights(Run& run, std::vector<std::int64_t> weights) {
  const WeightedTurns& turns = std::get<MixtureSteps>(*run.steps_).turns();
  go_to(run, {run.position_, turns.changed(std::move(weights), run.position_.consumed)}, false);
}

bool operator==(const Run& a, const Run& b) {
  const auto order = [](const RunOrder& of) {
    const Order& first = of.orders.front();
    return std::tuple(of.fingerprint, of.lengths, of.firsts, of.seed, first.plan().shards(),
                      first.plan().interleave(), first.shuffle(), of.block);
  };
  return (a.order_ == b.order_ || order(*a.order_) == order(*b.order_)) && *a.steps_ == *b.steps_ &&
         a.global_batch_size_ == b.global_batch_size_ && a.position_ == b.position_;
}

}  // namespace rota
