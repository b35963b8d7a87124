#include "loader/ahead.hpp"

#include <algorithm>
#include <utility>

#include "core/failure.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

constexpr double kWindowsAhead = 2;  // the one at hand, and the next
// A rank that reads less of a window has others bring too much for it.
constexpr double kLeastPart = 0.25;

// How much of the shards of `order` that are consumed at a time a rank reads; 1: the samples of one shard.
double shards_of_rank(const Order& order, Split split, World world) {
  const auto shards = static_cast<double>(order.plan().interleave());
  const bool is_scattered = split == Split::interleaved || split == Split::balanced;
  return is_scattered ? std::min(1.0, shards) / world.size : shards / world.size;
}

double samples_of_block(const Order& order, const BlockShape& shape) {
  if (!order.block_begins()) return static_cast<double>(shape.samples);
  return static_cast<double>(order.plan().samples()) / static_cast<double>(order.block_begins()->size());
}

// Unless it is an order of few shared files at a time.
void require_groups(const LoaderOptions& options, Sharing sharing) {
  const bool is_local = options.shuffle == Shuffle::none || options.shuffle == Shuffle::within;
  if (!is_local || options.interleave == 0) {
    throw failure(ErrorCode::invalid_argument,
                  "make a loader: the files of this dataset are shared in memory, because they are "
                  "compressed, or because the option share_files says so, and {} would need all of them at "
                  "all times; use shuffle within or none, and interleave > 0 for the number of shards whose "
                  "files are there at a time; or unpack the files beside, or do not share them",
                  is_local ? "interleave 0" : "this shuffle");
  }
  if (sharing == Sharing::in_few) return;
  throw Error(ErrorCode::unsupported,
              "pin files of a dataset: they are shared in memory, because they are compressed, or because "
              "the option share_files says so, and the samples of a range lie all over them, as those of a "
              "split, a selection or a packing do; unpack the files beside, or do not share them");
}

}  // namespace

std::unique_ptr<ReadPlan> plan_reads(const Source& source, const Run& run, const LoaderOptions& options) {
  const std::int64_t batch =
      std::ranges::max(RunAccess::path(run).stretches(), {}, &Stretch::batch_size).batch_size;
  return PlannedSource::plan_of(source, (options.read_ahead_batches + 2) * batch);
}

bool slice_of(const Run& run, RunSlice& out, World world, const LoaderOptions& options) {
  return run.slice(out, world, options.rank_split, options.balance);
}

void SamplesAhead::follow(const Run& run, std::int64_t samples) noexcept {
  if (!is_on_) return;
  try {
    tell(run, samples);
  } catch (...) {
    is_on_ = false;  // whoever reads will be told
  }
  if (!is_on_) plan_.stop();
}

void SamplesAhead::tell_again(const RunSlice& slice) noexcept {
  try {
    if (is_on_ && plan_.samples_ahead() > 0) plan_.tell(slice.ids);
  } catch (...) {
    is_on_ = false;
  }
}

void SamplesAhead::tell(const Run& run, std::int64_t samples) {
  // So many at a time that all are told before long, and the first batch does not wait.
  constexpr std::int64_t kMostSamples = 1 << 14;
  const std::int64_t want = plan_.samples_ahead() * world_.size;
  is_on_ = want > 0;
  if (!is_on_) return;
  const std::int64_t most = std::min(want, ahead_ + kMostSamples);
  if (!told_) told_ = run;
  while (ahead_ < std::max(most, samples) && slice_of(*told_, slice_, world_, options_)) {
    told_->advance(slice_);
    plan_.tell(slice_.ids);
    ahead_ += slice_.global_size;
  }
  ahead_ -= samples;
}

Ahead::Ahead(const Source& source, const Run& run, const LoaderOptions& options, World world)
    : plan_(plan_reads(source, run, options)),
      world_(world),
      split_(options.rank_split),
      // Of a dataset of a mixture nobody knows whether another epoch will be begun.
      epochs_(run.mixture() == nullptr ? options.epochs : 0),
      told_(*plan_, options, world),
      brings_(options.shuffle == Shuffle::block) {
  if (plan_->sharing() != Sharing::none) require_groups(options, plan_->sharing());
  const RunOrder& order = *RunAccess::order(run);
  double samples = 0;  // of windows, that are ahead
  for (std::size_t d = 0; d < order.orders.size(); ++d) {
    const Order& one = order.orders[d];
    datasets_.push_back({.order = one, .first_id = order.firsts[d]});
    const double shards = shards_of_rank(one, split_, world);
    if (split_ != Split::by_shard && shards < kLeastPart) brings_ = false;
    samples += kWindowsAhead * std::max(shards, 1.0) * samples_of_block(one, options.block) *
               static_cast<double>(options.block.blocks);
  }
  most_bytes_ = static_cast<double>(options.read_ahead_bytes) / std::max(samples, 1.0);
}

void Ahead::follow(const Run& run, const Planner& planner, const RunSlice& planned, std::vector<Pin>& pins) {
  if (plan_->sharing() != Sharing::none) pin(planner.batch(), pins);
  try {
    if (brings_ && !planned.is_again()) bring_windows(planner);
  } catch (...) {
    brings_ = false;  // whoever reads will be told
  }
  planned.is_again() ? told_.tell_again(planned) : told_.follow(run, planned.global_size);
}

void Ahead::end() noexcept {
  for (Dataset& dataset : datasets_) dataset.pinned.clear();
}

// ---- windows of Shuffle::block ----

void Ahead::bring_windows(const Planner& planner) {
  for (const ShardSpan& span : planner.spans()) {
    const EpochOrder& order = planner.order(span.dataset);
    if (span.kind == SlotKind::sample && span.epoch == order.epoch())
      bring_windows(datasets_[static_cast<std::size_t>(span.dataset)], order, span);
  }
}

void Ahead::bring_windows(Dataset& dataset, const EpochOrder& order, const ShardSpan& span) {
  if (std::exchange(dataset.window_epoch, span.epoch) != span.epoch) dataset.windows.clear();
  const std::int64_t length = dataset.order.plan().length(span.shard.value);
  const std::int64_t end = span.position + span.count;
  const auto next =
      dataset.windows.try_emplace(span.shard.value, order.window_at(span.shard, span.position)).first;
  const std::int64_t last =
      std::min(order.window_at(span.shard, end - 1) + 1, order.window_at(span.shard, length - 1));
  for (; next->second <= last; ++next->second) {
    for (const SampleRange& block : order.blocks_of(next->second)) {
      if (!brings_) return;
      const SampleRange samples{.begin = dataset.first_id + block.begin, .end = dataset.first_id + block.end};
      bytes_ += static_cast<double>(plan_->bring(samples, true).bytes);
      samples_ += static_cast<double>(block.end - block.begin);
      brings_ = bytes_ > 0 && bytes_ <= most_bytes_ * samples_;
    }
  }
  if (end == length) dataset.windows.erase(next);
}

// ---- groups of shared files ----

void Ahead::pin(const GlobalBatch& batch, std::vector<Pin>& out) {
  out.clear();
  for (const TurnRange& range : batch.turn_ranges) {
    if (range.begin == range.end) continue;
    Dataset& dataset = datasets_[static_cast<std::size_t>(range.dataset)];
    EpochGroups& groups = dataset.groups;
    groups.enter(dataset.order, range.epoch);
    // Padding may go through the epoch's turns more than once.
    for (auto k = groups.place_at(range.begin); k < groups.size() && groups.begin(k) < range.end; ++k) {
      // What pads a batch, or comes again, is not where the run goes on.
      out.push_back(range.kind == SlotKind::pad || batch.start == batch.next
                        ? hold(dataset, range.epoch, k)
                        : go_on(dataset, range.epoch, k));
    }
  }
  for (Dataset& dataset : datasets_) look_ahead(dataset);
}

// Where ranks have shards of their own, this one fetches no others; but all use all of them, so that they are
// dropped when the last rank has passed.
std::shared_ptr<const Ahead::Held> Ahead::hold(const Dataset& dataset, std::int64_t epoch, std::int64_t k) {
  const ShardPlan& plan = dataset.order.plan();
  const auto groups = dataset.order.groups(epoch);
  const std::int64_t group = groups ? (*groups)(k) : k;
  const std::int64_t end = plan.group_last(group);
  const bool is_by_shard = split_ == Split::by_shard;
  auto held = std::make_shared<Held>();
  for (std::int64_t first = plan.group_first(group), last = end; first < end; first = last) {
    if (is_by_shard) last = first + 1;
    const SampleRange samples{.begin = dataset.first_id + plan.begin(first),
                              .end = dataset.first_id + plan.begin(last)};
    const bool reads = !is_by_shard || first % world_.size == world_.rank;
    held->files.push_back(plan_->bring(samples, reads).pin);
  }
  return held;
}

// Held from here on, as the last that was planned.
Ahead::Pin Ahead::go_on(Dataset& dataset, std::int64_t epoch, std::int64_t k) {
  auto& pinned = dataset.pinned;
  const auto found = std::ranges::find_if(
      pinned, [&](const Group& group) { return group.held && group.epoch == epoch && group.k == k; });
  std::for_each(pinned.begin(), found, [](Group& before) { before.held.reset(); });
  if (found != pinned.end()) return found->held;
  return pinned.emplace_back(Group{.epoch = epoch, .k = k, .held = hold(dataset, epoch, k)}).held;
}

void Ahead::look_ahead(Dataset& dataset) {
  std::erase_if(dataset.pinned, [](const Group& group) { return group.is_held.expired(); });
  if (dataset.pinned.size() != 1) return;
  std::int64_t epoch = dataset.pinned.front().epoch;
  std::int64_t k = dataset.pinned.front().k + 1;
  if (k == dataset.order.plan().groups()) {
    k = 0;
    if (++epoch >= epochs_) return;
  }
  dataset.pinned.emplace_back(Group{.epoch = epoch, .k = k, .held = hold(dataset, epoch, k)});
}

}  // namespace rota::internal
