#include <algorithm>
#include <string_view>
#include <utility>

#include "core/failure.hpp"
#include "rota/source.hpp"
#include "source/field_check.hpp"
#include "source/file_samples.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kJoining = "join datasets";

class Joined final : public Source, public PlannedSource {
 public:
  explicit Joined(std::vector<std::shared_ptr<const Source>> sources) : sources_(std::move(sources)) {
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const SourceFacts facts = ask_facts(*sources_[s], kJoining);
      if (s == 0) fields_ = facts.fields;
      if (facts.fields != fields_) refuse(s, facts.fields);
      if (facts.size > kMaxCount - size()) refuse_sum(s, facts.size);
      samples_.add(facts.size);
    }
  }

  /// The same samples, of `sources`.
  Joined(const Joined& other, std::vector<std::shared_ptr<const Source>> sources)
      : sources_(std::move(sources)), fields_(other.fields_), samples_(other.samples_) {}

  [[nodiscard]] std::int64_t size() const override { return samples_.total(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    by_source(ids, [&](const Source& source, std::span<const SampleId> own, std::size_t first) {
      source.rows(own, field, out.subspan(first, own.size()));
    });
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    by_source(ids, [&](const Source& source, std::span<const SampleId> own, std::size_t first) {
      source.read(own, out.part(first, own.size()));
    });
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    check_ids(*this, wanted);
    std::vector<std::vector<SampleRows>> own(sources_.size());
    for (SampleRows rows : wanted) {
      const auto [s, sample] = samples_.find(rows.id.value);
      rows.id = {sample};
      own[s].push_back(rows);
    }
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      if (!own[s].empty()) sources_[s]->read_rows(own[s], field);
    }
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto sources = instances_of(sources_, worker);
    return sources.empty() ? nullptr : std::make_unique<Joined>(*this, std::move(sources));
  }

  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return sizes_by(ask_part_sizes); }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    const auto has_units = [](const auto& source) { return !source->unit_sizes().empty(); };
    if (std::ranges::none_of(sources_, has_units)) return {};
    return sizes_by(ask_unit_sizes);
  }

  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const override {
    return content_of_all(sources_, most);
  }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return will_read_by_plan(*this, first, count);
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    return std::make_unique<JointPlan>(
        *this, sources_, open,
        JointPlan::Map{.ids = [this](std::span<const SampleId> ids) { return ids_of_each(ids); },
                       .range = [this](SampleRange samples) { return parts_of(samples); }});
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder builder;
    builder.add("join");
    for (const auto& source : sources_) builder.add(source->fingerprint());
    return builder.finish();
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const auto [s, sample] = samples_.find(id.value);
    return sources_[s]->where({sample});
  }

 private:
  [[noreturn]] void refuse(std::size_t s, const std::vector<Field>& fields) const {
    throw failure(ErrorCode::invalid_argument,
                  "{}: number 0 has {}; number {} has {}; give all the same fields", kJoining,
                  describe(fields_), s, describe(fields));
  }
  [[noreturn]] void refuse_sum(std::size_t s, std::int64_t size) const {
    throw failure(ErrorCode::invalid_argument,
                  "{}: number {} has {} samples, behind {} of those before; all together may have 2^62",
                  kJoining, s, size, samples_.total());
  }
  // Of all sources, one where nothing is known.
  template <typename Ask>
  [[nodiscard]] std::vector<std::int64_t> sizes_by(const Ask& ask) const {
    std::vector<std::int64_t> sizes;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const std::vector<std::int64_t> own = ask(*sources_[s], samples_.count(s), kJoining);
      sizes.insert(sizes.end(), own.begin(), own.end());
      if (own.empty()) sizes.push_back(samples_.count(s));
    }
    return sizes;
  }

  [[nodiscard]] std::vector<std::vector<SampleId>> ids_of_each(std::span<const SampleId> ids) const {
    std::vector<std::vector<SampleId>> own(sources_.size());
    for (const SampleId id : ids) {
      const auto [s, sample] = samples_.find(id.value);
      own[s].push_back({sample});
    }
    return own;
  }
  [[nodiscard]] std::vector<JointPlan::Part> parts_of(SampleRange samples) const {
    check_range(samples, size());
    std::vector<JointPlan::Part> parts;
    for (std::int64_t count = 0; samples.begin < samples.end; samples.begin += count) {
      const auto [s, sample] = samples_.find(samples.begin);
      count = std::min(samples.end - samples.begin, samples_.count(s) - sample);
      parts.push_back({.source = s, .samples = {.begin = sample, .end = sample + count}});
    }
    return parts;
  }

  // Calls `work(source, ids in it, number of the first)` for neighbours of one source.
  template <typename Work>
  void by_source(std::span<const SampleId> ids, Work work) const {
    check_ids(*this, ids);
    std::vector<SampleId> own;
    for (std::size_t first = 0; first < ids.size(); first += own.size()) {
      const std::size_t s = samples_.find(ids[first].value).file;
      own.clear();
      for (std::size_t i = first; i < ids.size(); ++i) {
        const auto [other, sample] = samples_.find(ids[i].value, s);
        if (other != s) break;
        own.push_back({sample});
      }
      work(*sources_[s], own, first);
    }
  }

  std::vector<std::shared_ptr<const Source>> sources_;
  std::vector<Field> fields_;
  FileSamples samples_;  // of each source
};

}  // namespace

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> join(std::vector<std::shared_ptr<const Source>> sources) {
  if (sources.empty() || std::ranges::find(sources, nullptr) != sources.end()) {
    throw Error(ErrorCode::invalid_argument,
                "join datasets: there must be one or more, and none may be missing (a null pointer)");
  }
  return std::make_shared<internal::Joined>(std::move(sources));
}

}  // namespace rota
