#include "source/mapped_source.hpp"

#include <algorithm>

#include "source/source_facts.hpp"

namespace rota::internal {

void MappedSource::rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const {
  whole_->rows(originals(ids), field, out);
}

void MappedSource::read(std::span<const SampleId> ids, const BatchView& out) const {
  whole_->read(originals(ids), out);
}

void MappedSource::read_rows(std::span<const SampleRows> wanted, std::size_t field) const {
  check_ids(*this, wanted);
  std::vector<SampleRows> translated(wanted.begin(), wanted.end());
  for (SampleRows& part : translated) part.id = original(part.id);
  whole_->read_rows(translated, field);
}

std::unique_ptr<const Source> MappedSource::for_worker(const WorkerInfo& worker) const {
  auto own = instance_of(*whole_, worker);
  return own ? of(std::move(own)) : nullptr;
}

std::unique_ptr<ReadPlan> MappedSource::plan_reads(std::int64_t open) const {
  const auto ids = [this](std::span<const SampleId> own) { return originals(own); };
  return std::make_unique<MappedPlan>(*this, *whole_, open,
                                      MappedPlan::Map{.ids = ids, .range = original_range()});
}

std::vector<SampleContent> MappedSource::content(std::int64_t most) const {
  return content_of(*whole_, most);
}

std::string MappedSource::where(SampleId id) const {
  return id.value >= 0 && id.value < size_ ? whole_->where(original(id)) : std::string();
}

std::vector<SampleId> MappedSource::originals(std::span<const SampleId> ids) const {
  check_ids(*this, ids);
  std::vector<SampleId> result(ids.size());
  std::transform(ids.begin(), ids.end(), result.begin(), [this](SampleId id) { return original(id); });
  return result;
}

}  // namespace rota::internal
