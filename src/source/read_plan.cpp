#include "source/read_plan.hpp"

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

const Source* PlannedSource::inner_of(const Source& source) {
  const auto* const adaptor = dynamic_cast<const SourceAdaptor*>(&source);
  return adaptor == nullptr ? nullptr : &adaptor->inner();
}

void PlannedSource::ask_rows(const Source& source, std::span<const std::int64_t> epochs,
                             std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) {
  const auto* const planned = dynamic_cast<const PlannedSource*>(&source);
  if (planned == nullptr || !planned->rows_in(epochs, ids, field, out)) source.rows(ids, field, out);
}

std::unique_ptr<ReadPlan> PlannedSource::plan_of(const Source& source, std::int64_t open) {
  if (const auto* const planned = dynamic_cast<const PlannedSource*>(&source)) {
    if (auto plan = planned->plan_reads(open)) return plan;
  }
  if (const Source* const inner = inner_of(source)) {
    MappedPlan::Map map;
    if (source.size() == inner->size()) {
      map.ids = [](std::span<const SampleId> ids) { return std::vector(ids.begin(), ids.end()); };
      map.range = [](SampleRange samples) { return samples; };
    }
    return std::make_unique<AdaptorPlan>(source, *inner, open, std::move(map));
  }
  return std::make_unique<ReadPlan>(source);
}

std::vector<SampleContent> PlannedSource::content_of(const Source& source, std::int64_t most,
                                                     SampleRange of) {
  if (const auto* const planned = dynamic_cast<const PlannedSource*>(&source))
    return planned->content(most, of);
  const Source* const inner = inner_of(source);
  if (inner == nullptr) return {};
  const bool is_all = of.end - of.begin == source.size();
  if (inner->size() == source.size()) return content_of(*inner, most, of);
  return is_all ? content_of(*inner, most) : std::vector<SampleContent>();
}

bool PlannedSource::keeps_samples_of(const Source& source) {
  if (const auto* const planned = dynamic_cast<const PlannedSource*>(&source))
    return planned->keeps_samples();
  const Source* const inner = inner_of(source);
  return inner == nullptr || keeps_samples_of(*inner);
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

}  // namespace rota::internal
