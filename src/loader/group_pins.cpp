#include "loader/group_pins.hpp"

#include <algorithm>
#include <utility>

#include "core/failure.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

void require_groups(const LoaderOptions& options) {
  const bool is_local = options.shuffle == Shuffle::none || options.shuffle == Shuffle::within;
  if (is_local && options.interleave > 0) return;
  throw failure(ErrorCode::invalid_argument,
                "make a loader: the files of this dataset are shared in memory, because they are compressed, "
                "or because the option share_files says so, and {} would need all of them at all times; use "
                "shuffle within or none, and interleave > 0 for the number of shards whose files are there "
                "at a time; or unpack the files beside, or do not share them",
                is_local ? "interleave 0" : "this shuffle");
}

}  // namespace

GroupPins::GroupPins(const NodeFiles& files, const RunOrder& order, const LoaderOptions& options, World world)
    : files_(files),
      world_(world),
      splits_shards_(options.rank_split == Split::by_shard),
      // Of a dataset of a mixture nobody knows whether another epoch will be begun.
      epochs_(order.given.empty() ? options.epochs : 0) {
  require_groups(options);
  (void)files_.pin({}, false);
  for (std::size_t d = 0; d < order.orders.size(); ++d) {
    datasets_.push_back({.order = order.orders[d], .first_id = order.firsts[d]});
  }
}

void GroupPins::pin(const GlobalBatch& batch, std::vector<Pin>& out) {
  out.clear();
  for (const TurnRange& range : batch.turn_ranges) {
    if (range.begin == range.end) continue;
    Dataset& dataset = datasets_[static_cast<std::size_t>(range.dataset)];
    EpochGroups& groups = dataset.groups;
    groups.enter(dataset.order, range.epoch);
    // Padding may go through the epoch's turns more than once.
    for (auto k = groups.place_at(range.begin); k < groups.size() && groups.begin(k) < range.end; ++k) {
      // What pads a batch is not where the run goes on.
      out.push_back(range.kind == SlotKind::pad ? begin(dataset, range.epoch, k).pins
                                                : go_on(dataset, range.epoch, k));
    }
  }
  for (Dataset& dataset : datasets_) look_ahead(dataset);
}

// Where ranks have shards of their own, this one fetches no others; but all use all of them, so that they are
// dropped when the last rank has passed.
Pin GroupPins::pin_files(const Dataset& dataset, std::int64_t epoch, std::int64_t k) const {
  const ShardPlan& plan = dataset.order.plan();
  const auto groups = dataset.order.groups(epoch);
  const std::int64_t group = groups ? (*groups)(k) : k;
  const std::int64_t first = plan.group_first(group);
  const std::int64_t last = plan.group_last(group);
  const auto range = [&](std::int64_t begin, std::int64_t end) {
    return SampleRange{.begin = dataset.first_id + plan.begin(begin),
                       .end = dataset.first_id + plan.begin(end)};
  };
  if (!splits_shards_) return files_.pin(range(first, last), true);
  auto pins = std::make_shared<std::vector<Pin>>();
  for (std::int64_t s = first; s < last; ++s) {
    pins->push_back(files_.pin(range(s, s + 1), s % world_.size == world_.rank));
  }
  return pins;
}

GroupPins::Group GroupPins::begin(const Dataset& dataset, std::int64_t epoch, std::int64_t k) const {
  auto is_over = std::make_shared<std::atomic<bool>>(false);
  Pin files = pin_files(dataset, epoch, k);
  Pin pins(static_cast<const void*>(is_over.get()), [files, is_over](const void*) mutable {
    files.reset();
    *is_over = true;
  });
  return {.epoch = epoch, .k = k, .pins = std::move(pins), .is_over = std::move(is_over)};
}

// Held from here on, as the last that was planned.
Pin GroupPins::go_on(Dataset& dataset, std::int64_t epoch, std::int64_t k) {
  auto& pins = dataset.pins;
  const auto found =
      std::ranges::find_if(pins, [&](const Group& group) { return group.epoch == epoch && group.k == k; });
  for (auto before = pins.begin(); before != found; ++before) dataset.passed.push_back(before->is_over);
  pins.erase(pins.begin(), found);
  if (pins.empty()) pins.push_back(begin(dataset, epoch, k));
  return pins.front().pins;
}

void GroupPins::look_ahead(Dataset& dataset) {
  std::erase_if(dataset.passed, [](const IsOver& is_over) { return is_over->load(); });
  if (dataset.pins.size() != 1 || !dataset.passed.empty()) return;
  std::int64_t epoch = dataset.pins.front().epoch;
  std::int64_t k = dataset.pins.front().k + 1;
  if (k == dataset.order.plan().groups()) {
    k = 0;
    if (++epoch >= epochs_) return;
  }
  dataset.pins.push_back(begin(dataset, epoch, k));
}

}  // namespace rota::internal
