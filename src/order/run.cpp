#include "rota/run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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
using internal::RunPath;
using internal::ShardPlan;
using internal::Steps;

// ---- how runs are made ----

Run::Run(std::shared_ptr<const RunOrder> order, std::shared_ptr<const RunPath> path)
    : order_(std::move(order)), path_(std::move(path)), own_plan_(path_->plan()) {}

Run::Run(std::int64_t samples, const RunOptions& options)
    : Run(std::vector<RunData>{{.samples = samples}}, options) {}

Run::Run(const std::vector<RunData>& data, const RunOptions& options)
    : Run(RunAccess::make(
          data, options,
          options.weights.empty() ? std::vector<std::int64_t>() : internal::quantise(options.weights))) {}

RunOptions Run::options() const {
  const Order& order = order_->orders.front();
  RunOptions options{.global_batch_size = global_batch_size(),
                     .shards = order.plan().shards(),
                     .interleave = order.plan().interleave(),
                     .shuffle = order.shuffle(),
                     .seed = order_->seed,
                     .block = order_->block,
                     .tail = RunAccess::tail(*this),
                     .epochs = RunAccess::epochs(*this),
                     .plan = plan(),
                     .fingerprint = order_->fingerprint};
  if (const auto* mixed = std::get_if<MixtureSteps>(&RunAccess::steps(*this))) {
    options.weights.assign(mixture()->weights.begin(), mixture()->weights.end());
    options.end = mixed->rules().end;
    options.steps = mixed->rules().steps;
  }
  return options;
}

std::vector<RunData> Run::data() const {
  std::vector<RunData> all;
  const bool are_named = order_->names.size() == order_->orders.size();
  for (const Order& order : order_->orders) {
    const ShardPlan& plan = order.plan();
    RunData one{.samples = plan.samples()};
    if (are_named) one.name = order_->names[all.size()];
    if (are_named) one.fingerprint = order_->known[all.size()];
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
const RunPlan& Run::plan() const noexcept { return *path_->plan(); }
std::int64_t Run::global_batch_size() const noexcept { return RunAccess::stretch(*this).batch_size; }

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
  whole.path_ = std::make_shared<const RunPath>(
      internal::Stretch{position_, std::ssize(RunAccess::open(*this)), RunAccess::stretch(*this).steps},
      false, std::make_shared<const RunPlan>());
  static_cast<void>(whole.slice(all));
  return all;
}

std::string internal::RunAccess::past(const Run& run) {
  const Stretch& first = run.path_->stretches().front();
  const MixtureState* const mixture = first.mixture();
  return fmt::format(
      "it came before epoch {}, sample {}, step {}, from which on batches are of {} samples{}; what they "
      "were before is not known; ask where the run was then",
      first.begin.epoch, first.begin.consumed, first.begin.step, first.batch_size,
      mixture == nullptr ? ""
                         : fmt::format(", and weights as they were set at sample {}", mixture->changed_at));
}

std::optional<Position> Run::position_of(std::int64_t step) const {
  if (step < 0) throw internal::failure(ErrorCode::out_of_range, "find step {}: steps begin with 0", step);
  if (step < path_->stretches().front().begin.step)
    throw internal::failure(ErrorCode::unsupported, "find step {}: {}", step, RunAccess::past(*this));
  return path_->start_of(step);
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
  const Steps* const steps = std::get_if<Steps>(&RunAccess::steps(*this));
  return steps == nullptr ? this->steps() : Steps(samples(), steps->tail(), 1).count({}, global_batch_size());
}
bool Run::is_skipped(std::int64_t step) const noexcept { return path_->is_skipped(step); }
std::int64_t Run::steps() const { return path_->count(); }

const MixtureState* Run::mixture() const noexcept { return RunAccess::stretch(*this).mixture(); }

// ---- how they are moved ----

std::vector<std::int64_t> internal::RunAccess::had(const Run& run) {
  const auto* const mixed = std::get_if<MixtureSteps>(&steps(run));
  std::vector<std::int64_t> samples;
  for (std::size_t d = 0; d < run.order_->orders.size(); ++d) {
    const Position at = mixed == nullptr ? run.position() : mixed->place(d, run.position());
    const i128 all = i128{at.epoch} * run.order_->orders[d].plan().samples() + at.consumed;
    samples.push_back(static_cast<std::int64_t>(std::min<i128>(all, kMaxCount)));
  }
  return samples;
}

void internal::RunAccess::require_mixture(const Run& run, std::string_view verb, std::size_t datasets) {
  const std::size_t own = run.mixture() == nullptr ? 0 : run.order_->orders.size();
  if (own == datasets && own > 0) return;
  throw failure(ErrorCode::invalid_argument, "{} of a mixture of {} datasets: this run {}", verb, datasets,
                own == 0 ? "mixes none" : fmt::format("mixes {}", own));
}

namespace {

// By the rules of these steps.
std::shared_ptr<const internal::RunSteps> steps_by(const std::shared_ptr<const internal::RunSteps>& steps,
                                                   const std::optional<MixtureState>& mixture) {
  const auto* mixed = std::get_if<MixtureSteps>(steps.get());
  if (mixed == nullptr || !mixture || *mixture == mixed->turns().state()) return steps;
  return std::make_shared<const internal::RunSteps>(mixed->with(internal::WeightedTurns(*mixture)));
}

}  // namespace

void internal::RunAccess::go_to(Run& run, const RunPlace& place, bool are_same) {
  const auto require = [&](const std::optional<MixtureState>& mixture) {
    if (mixture || run.mixture() != nullptr)
      require_mixture(run, "go to a place", mixture ? mixture->weights.size() : 0);
  };
  require(place.mixture);
  const auto steps = steps_by(stretch(run).steps, place.mixture);
  std::visit([&](const auto& of) { of.require(place.position); }, *steps);
  const Stretch here{place.position, place.batch_size, steps};
  Stretch before{place.origin, place.batch_size, steps};
  const auto plan = std::make_shared<const RunPlan>(place.way ? place.way->plan : RunPlan());
  std::shared_ptr<const RunPath> path;
  if (place.way && are_same) {
    require(place.way->mixture);
    const Stretch first{place.way->begin, place.way->batch_size, steps_by(steps, place.way->mixture)};
    std::visit([&](const auto& of) { of.require(first.begin); }, *first.steps);
    path = std::make_shared<const RunPath>(first, place.way->takes_stages, plan, place.way->changes);
    const Stretch& there = path->at(place.position.step);
    const bool is_way = path->is_whole() && path->lead(place.position) &&
                        there.batch_size == here.batch_size && *there.steps == *steps;
    if (!is_way) path = nullptr;  // the text was made by a rota that knows of no ways, or for other epochs
  }
  const bool lead = are_same && before.lead(place.position);
  if (!path)
    path = std::make_shared<const RunPath>(lead ? before : here,
                                           lead && !place.way && place.origin == Position(), plan);
  run.path_ = std::move(path);
  run.position_ = place.position;
  set_open(run, {});
}

void internal::RunAccess::go_back(Run& run, const Position& at) {
  const RunPath& path = *run.path_;
  run.position_ = at;
  if (at.step >= path.begin().step) return;
  Stretch first = path.stretches().front();
  first.begin = at;
  run.path_ = std::make_shared<const RunPath>(first, false, path.plan(), path.changes());
}

void internal::RunAccess::change(Run& run, std::int64_t batch_size, std::vector<std::int64_t> weights) {
  run.path_ =
      std::make_shared<const RunPath>(run.path_->with({run.position_, batch_size, std::move(weights)}));
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
  // What was changed by hand since goes with it.
  const bool is_known = std::ranges::none_of(
      path_->changes(), [&](const internal::ChangeByHand& one) { return one.at.step > position.step; });
  const internal::Stretch& now = RunAccess::stretch(*this);
  const internal::Stretch& there = is_known ? path_->at(position.step) : now;
  std::visit([&](const auto& steps) { steps.require(position); }, *there.steps);
  if (!is_known || !path_->lead(position)) {
    const bool is_planned = !plan().stages.empty();
    path_ = std::make_shared<const RunPath>(
        internal::Stretch{position, is_planned ? order_->given_batch_size : now.batch_size, there.steps},
        is_planned, path_->plan());
  }
  position_ = position;
  RunAccess::set_open(*this, {});
}

void Run::seek(const Position& position, const MixtureState& mixture) {
  RunAccess::require_mixture(*this, "go to a place", mixture.weights.size());
  const internal::Stretch& there =
      plan().stages.empty() ? RunAccess::stretch(*this) : path_->at(position.step);
  if (*there.mixture() == mixture) return seek(position);
  const auto steps = steps_by(there.steps, mixture);
  std::get<MixtureSteps>(*steps).require(position);
  internal::Stretch first{{}, there.batch_size, steps};
  if (!first.lead(position)) first.begin = position;
  path_ = std::make_shared<const RunPath>(std::move(first), false, path_->plan());
  position_ = position;
  RunAccess::set_open(*this, {});
}

void Run::seek_step(std::int64_t step) {
  const auto there = at(step);
  if (!there)
    throw internal::failure(ErrorCode::out_of_range, "go to step {}: the run has fewer steps", step);
  position_ = there->position_;
  RunAccess::set_open(*this, {});
}

void Run::restart() {
  const internal::Stretch& now = RunAccess::stretch(*this);
  std::optional<MixtureState> mixture;
  if (this->mixture() != nullptr)
    mixture = {.weights = order_->given, .counts = std::vector<std::int64_t>(order_->given.size())};
  path_ = std::make_shared<const RunPath>(
      internal::Stretch{{},
                        plan().stages.empty() ? now.batch_size : order_->given_batch_size,
                        steps_by(now.steps, mixture)},
      true, path_->plan());
  position_ = {};
  RunAccess::set_open(*this, {});
}

void Run::set_global_batch_size(std::int64_t size) {
  internal::OptionCheck("set a batch size").in_range("global_batch_size", size, 1, kMaxBatchSize);
  if (size != global_batch_size()) RunAccess::change(*this, size, {});
}

void Run::set_weights(std::span<const double> weights) {
  RunAccess::require_mixture(*this, "set weights", weights.size());
  RunAccess::change(*this, 0, internal::quantise(weights));
}

bool internal::RunAccess::replan(Run& run, const RunPlan& plan) {
  const RunPath& before = *run.path_;
  if (plan == *before.plan()) return true;
  const bool is_known = before.begin() == Position() || !before.plan()->stages.empty();
  auto made = std::make_shared<const RunPlan>(plan);
  std::vector<ChangeByHand> changes = before.changes();  // up to here: what was to come is the plan's
  std::erase_if(changes, [&](const ChangeByHand& one) { return one.at.step > run.position_.step; });
  auto path = std::make_shared<const RunPath>(
      is_known
          ? RunPath(before.first(), before.takes_stages(), std::move(made), std::move(changes))
          : RunPath({run.position_, run.global_batch_size(), stretch(run).steps}, true, std::move(made)));
  if (!path->is_whole() || !path->lead(run.position_) ||
      (is_known && !path->is_same_until(before, run.position_)))
    return false;
  run.path_ = std::move(path);
  return true;
}

void Run::replan(const RunPlan& plan) {
  if (RunAccess::replan(*this, plan)) {
    own_plan_ = path_->plan();
    return;
  }
  throw internal::failure(ErrorCode::mismatch, "go on by another plan: {}",
                          RunAccess::other_past(*this, plan));
}

Run internal::RunAccess::without_skip(const Run& run) {
  Run whole = run;
  RunPlan plan = run.plan();
  plan.skip.clear();
  whole.path_ =
      std::make_shared<const RunPath>(run.path_->with(std::make_shared<const RunPlan>(std::move(plan))));
  return whole;
}

std::string internal::RunAccess::other_past(const Run& run, const RunPlan& plan) {
  const RunPath& then = *run.path_;
  const RunPath now(then.first(), then.takes_stages(), std::make_shared<const RunPlan>(plan), then.changes());
  std::int64_t same = then.begin().step;
  for (std::int64_t end = run.position_.step; end - same > 1;) {
    const std::int64_t middle = same + (end - same) / 2;
    (then.is_same_until(now, {.step = middle}) ? same : end) = middle;
  }
  const auto told = [&](const RunPath& path) {
    const Stretch& stretch = path.at(same);
    const std::string weights =
        stretch.mixture() == nullptr
            ? ""
            : fmt::format(" by weights {}", fmt::join(stretch.mixture()->weights, ":"));
    return path.is_skipped(same) ? "left out" : fmt::format("of {} samples{}", stretch.batch_size, weights);
  };
  return fmt::format(
      "step {} is past, and was {}; by this plan it is {}; leave stages and skipped steps as they are "
      "that have begun, and add others behind",
      same, told(then), told(now));
}

bool operator==(const Run& a, const Run& b) {
  const auto order = [](const RunOrder& of) {
    const Order& first = of.orders.front();
    return std::tuple(of.fingerprint, of.lengths, of.firsts, of.seed, first.plan().shards(),
                      first.plan().interleave(), first.shuffle(), of.block);
  };
  return (a.order_ == b.order_ || order(*a.order_) == order(*b.order_)) && a.position_ == b.position_ &&
         a.path_->is_same_from(*b.path_, a.position_) &&
         std::ranges::equal(RunAccess::open(a), RunAccess::open(b));
}

}  // namespace rota
