#include "rota/run.hpp"

#include <fmt/format.h>

#include <utility>

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

template <typename Call>
auto ask(const Run& run, Call call) {
  return std::visit(call, RunAccess::steps(run));
}

}  // namespace

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

bool Run::slice(RunSlice& out, World world, Split split, const Balance& balance) const {
  world.validate();
  return with_planner([&](Planner& planner) { return planner.plan(*this, world, split, balance, out); });
}

std::optional<BatchSlot> Run::when(SampleId id, std::int64_t epoch, int ranks, Split split,
                                   const Balance& balance) const {
  return with_planner(
      [&](Planner& planner) { return planner.when(*this, id, epoch, ranks, split, balance); });
}

void Run::cursors(std::int64_t first, std::span<std::int64_t> out) const {
  with_planner([&](Planner& planner) { return planner.cursors(*this, first, out), 0; });
}

bool Run::advance() {
  internal::GlobalBatch batch;
  if (!RunAccess::batch(*this, batch)) return false;
  if (batch.start == batch.next) again_ += batch.real;
  position_ = batch.next;
  return true;
}

void Run::advance(const RunSlice& slice) {
  internal::GlobalBatch next;
  if (RunAccess::batch(*this, next) && slice.start == next.start && slice.end == next.next) {
    again_ += slice.is_again() ? next.real : 0;
    position_ = next.next;
    return;
  }
  throw internal::failure(
      ErrorCode::invalid_argument,
      "go behind a batch of step {}: it is not the next one of this run, which is at step {}; take a slice "
      "where the run is now",
      slice.start.step, position_.step);
}

bool Run::is_over() const {
  internal::GlobalBatch batch;
  return !RunAccess::batch(*this, batch);
}

RunSlice Run::open() const {
  RunSlice all;
  if (RunAccess::open(*this).empty()) return all;
  Run whole = *this;
  whole.global_batch_size_ = std::ssize(RunAccess::open(*this));
  static_cast<void>(whole.slice(all));
  return all;
}

std::string internal::RunAccess::past(const Run& run) {
  const Position& at = run.origin_;
  return fmt::format(
      "it came before epoch {}, sample {}, step {}, from which on batches are of {} samples{}; what they "
      "were before is not known; ask where the run was then",
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
  return at && at->is_countable() && at->step < kMaxCount ? at : std::nullopt;
}

std::optional<Run> Run::at(std::int64_t step) const {
  const auto position = position_of(step);
  if (!position) return std::nullopt;
  std::optional<Run> run(*this);
  run->position_ = *position;
  RunAccess::set_open(*run, {});
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
  set_open(run, {});
}

void internal::RunAccess::go_back(Run& run, const Position& at) {
  run.position_ = at;
  if (at.step < run.origin_.step) run.origin_ = at;
}

void internal::RunAccess::add_open(Run& run, const OpenTurns& more) {
  const auto before = open(run);
  OpenTurns all(before.begin(), before.end());
  all.insert(all.end(), more.begin(), more.end());
  set_open(run, std::move(all));
}

internal::OpenTurns internal::RunAccess::turns_of(const Run& run, std::span<const SampleId> ids,
                                                  std::span<const std::int64_t> epochs) {
  return run.with_planner([&](Planner& planner) { return planner.turns_of(ids, epochs); });
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
  keep_open(run, [&] {
    go_to(run, {run.position_, turns.changed(std::move(weights), run.position_.consumed)}, false);
  });
}

bool operator==(const Run& a, const Run& b) {
  const auto order = [](const RunOrder& of) {
    const Order& first = of.orders.front();
    return std::tuple(of.fingerprint, of.lengths, of.firsts, of.seed, first.plan().shards(),
                      first.plan().interleave(), first.shuffle(), of.block);
  };
  return (a.order_ == b.order_ || order(*a.order_) == order(*b.order_)) && *a.steps_ == *b.steps_ &&
         a.global_batch_size_ == b.global_batch_size_ && a.position_ == b.position_ &&
         std::ranges::equal(RunAccess::open(a), RunAccess::open(b));
}

}  // namespace rota
