#include "source/read_plan.hpp"

#include <algorithm>
#include <utility>

#include "core/failure.hpp"

namespace rota::internal {

void check_range(SampleRange samples, std::int64_t size) {
  if (samples.begin >= 0 && samples.begin <= samples.end && samples.end <= size) return;
  throw failure(ErrorCode::out_of_range, "bring samples [{}, {}): the dataset has {} samples", samples.begin,
                samples.end, size);
}

ReadPlan::Near ReadPlan::bring(SampleRange samples, bool /*reads*/) {
  return {.bytes = source_.will_read({samples.begin}, samples.end - samples.begin)};
}

namespace {

// Its `will_read` may be the user's own; else it forwards.
class AdaptorPlan final : public MappedPlan {
 public:
  using MappedPlan::MappedPlan;
  [[nodiscard]] Near bring(SampleRange samples, bool reads) override {
    // NOLINTNEXTLINE(bugprone-parent-virtual-call): the source's own, and not what it maps to
    return sharing() == Sharing::none ? ReadPlan::bring(samples, reads) : MappedPlan::bring(samples, reads);
  }
};

}  // namespace

// The source that a user's adaptor is around, or null.
const Source* PlannedSource::inner_of(const Source& source) {
  const auto* const adaptor = dynamic_cast<const SourceAdaptor*>(&source);
  return adaptor == nullptr ? nullptr : &adaptor->inner();
}

std::unique_ptr<ReadPlan> PlannedSource::plan_of(const Source& source, std::int64_t open) {
  if (const auto* const planned = dynamic_cast<const PlannedSource*>(&source)) {
    if (auto plan = planned->plan_reads(open)) return plan;
  } else if (const Source* const inner = inner_of(source)) {
    MappedPlan::Map map;
    if (source.size() == inner->size()) {
      map.ids = [](std::span<const SampleId> ids) { return std::vector(ids.begin(), ids.end()); };
      map.range = [](SampleRange samples) { return samples; };
    }
    return std::make_unique<AdaptorPlan>(source, *inner, open, std::move(map));
  }
  return std::make_unique<ReadPlan>(source);
}

std::vector<SampleContent> PlannedSource::content_of(const Source& source, std::int64_t most) {
  if (const auto* const planned = dynamic_cast<const PlannedSource*>(&source)) return planned->content(most);
  const Source* const inner = inner_of(source);
  return inner == nullptr ? std::vector<SampleContent>() : content_of(*inner, most);
}

std::vector<SampleContent> PlannedSource::content_of_all(
    std::span<const std::shared_ptr<const Source>> sources, std::int64_t most) {
  std::vector<SampleContent> all;
  const std::int64_t asked = std::min(most, std::ssize(sources));
  for (std::int64_t k = 0; k < asked; ++k) {
    auto own =
        content_of(*sources[static_cast<std::size_t>(share(std::ssize(sources), k, asked))], most / asked);
    std::ranges::move(own, std::back_inserter(all));
  }
  return all;
}

MappedPlan::MappedPlan(const Source& source, const Source& other, std::int64_t open, Map map)
    : ReadPlan(source), map_(std::move(map)), other_(PlannedSource::plan_of(other, open * map_.count)) {}

std::int64_t MappedPlan::samples_ahead() const {
  return map_.ids ? (other_->samples_ahead() + map_.count - 1) / map_.count : 0;
}

void MappedPlan::tell(std::span<const SampleId> ids) {
  if (map_.ids) other_->tell(map_.ids(ids));
}

ReadPlan::Near MappedPlan::bring(SampleRange samples, bool reads) {
  return map_.range ? other_->bring(map_.range(samples), reads) : Near();
}

std::unique_ptr<ReadPlan> MappedPlan::without_bytes() const {
  auto other = map_.ids ? other_->without_bytes() : nullptr;
  return other ? std::make_unique<MappedPlan>(source(), std::move(other), map_) : nullptr;
}

Sharing MappedPlan::sharing() const {
  const Sharing sharing = other_->sharing();
  return map_.range || sharing == Sharing::none ? sharing : Sharing::all_over;
}

JointPlan::JointPlan(const Source& source, std::span<const std::shared_ptr<const Source>> others,
                     std::int64_t open, Map map)
    : ReadPlan(source), map_(std::move(map)) {
  std::int64_t most = 0;  // by which all are told ahead
  for (const auto& other : others)
    most = std::max(most, PlannedSource::plan_of(*other, open)->samples_ahead());
  for (const auto& other : others) {
    plans_.push_back(PlannedSource::plan_of(*other, open + most));
    sharing_ = std::max(sharing_, plans_.back()->sharing());
  }
}

std::int64_t JointPlan::samples_ahead() const {
  std::int64_t most = 0;
  for (const auto& plan : plans_) most = std::max(most, plan->samples_ahead());
  return most;
}

void JointPlan::tell(std::span<const SampleId> ids) {
  const auto own = map_.ids(ids);
  for (std::size_t s = 0; s < plans_.size(); ++s) plans_[s]->tell(own[s]);
}

void JointPlan::stop() noexcept {
  for (const auto& plan : plans_) plan->stop();
}

std::unique_ptr<ReadPlan> JointPlan::without_bytes() const {
  std::vector<std::unique_ptr<ReadPlan>> plans;
  bool has_any = false;
  for (const auto& plan : plans_) {
    auto own = plan->without_bytes();
    has_any = has_any || own;
    plans.push_back(own ? std::move(own) : std::make_unique<ReadPlan>(source()));  // which does nothing
  }
  return has_any ? std::make_unique<JointPlan>(source(), std::move(plans), map_) : nullptr;
}

void JointPlan::pass(std::span<const SampleId> ids) {
  const auto own = map_.ids(ids);
  for (std::size_t s = 0; s < plans_.size(); ++s) plans_[s]->pass(own[s]);
}

ReadPlan::Near JointPlan::bring(SampleRange samples, bool reads) {
  auto pins = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  std::int64_t bytes = 0;
  for (const Part& part : map_.range(samples)) {
    ReadPlan& plan = *plans_[part.source];
    if (sharing_ != Sharing::none && plan.sharing() == Sharing::none) continue;
    Near near = plan.bring(part.samples, reads);
    pins->push_back(std::move(near.pin));
    bytes += near.bytes;
  }
  return {.pin = std::move(pins), .bytes = bytes};
}

bool JointPlan::changes_by_epoch() const {
  return std::ranges::any_of(plans_, [](const auto& plan) { return plan->changes_by_epoch(); });
}

ReadCounts JointPlan::counts() const {
  ReadCounts sum;
  for (const auto& plan : plans_) sum += plan->counts();
  return sum;
}

}  // namespace rota::internal
