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

internal::OpenTurns internal::RunAccess::turns_of(const Run& run, std::span<const SampleId> ids,
                                                  std::span<const std::int64_t> epochs) {
  return run.with_planner([&](Planner& planner) { return planner.turns_of(ids, epochs); });
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
