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

// Of each source its own.
class JoinedPlan final : public ReadPlan {
 public:
  // `samples`, those of each source, must outlive it.
  JoinedPlan(const Source& joined, std::span<const std::shared_ptr<const Source>> sources,
             const FileSamples& samples, std::int64_t open)
      : ReadPlan(joined), samples_(samples) {
    std::int64_t most = 0;  // by which all are told ahead
    for (const auto& source : sources)
      most = std::max(most, PlannedSource::plan_of(*source, open)->samples_ahead());
    for (const auto& source : sources) {
      plans_.push_back(PlannedSource::plan_of(*source, open + most));
      sharing_ = std::max(sharing_, plans_.back()->sharing());
    }
  }

  [[nodiscard]] std::int64_t samples_ahead() const override {
    std::int64_t most = 0;
    for (const auto& plan : plans_) most = std::max(most, plan->samples_ahead());
    return most;
  }
  void tell(std::span<const SampleId> ids) override {
    each_of(ids, [](ReadPlan& plan, std::span<const SampleId> own) { plan.tell(own); });
  }
  void stop() noexcept override {
    for (const auto& plan : plans_) plan->stop();
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> without_bytes() const override {
    std::vector<std::unique_ptr<ReadPlan>> plans;
    bool has_any = false;
    for (const auto& plan : plans_) {
      auto own = plan->without_bytes();
      has_any = has_any || own;
      plans.push_back(own ? std::move(own) : std::make_unique<ReadPlan>(source()));  // which does nothing
    }
    return has_any ? std::make_unique<JoinedPlan>(source(), samples_, std::move(plans)) : nullptr;
  }
  void pass(std::span<const SampleId> ids) override {
    each_of(ids, [](ReadPlan& plan, std::span<const SampleId> own) { plan.pass(own); });
  }
  // Where some have shared files, of these alone.
  [[nodiscard]] Near bring(SampleRange samples, bool reads) override {
    check_range(samples, samples_.total());
    auto pins = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    std::int64_t bytes = 0;
    for (std::int64_t count = 0; samples.begin < samples.end; samples.begin += count) {
      const auto [s, sample] = samples_.find(samples.begin);
      count = std::min(samples.end - samples.begin, samples_.count(s) - sample);
      if (sharing_ != Sharing::none && plans_[s]->sharing() == Sharing::none) continue;
      Near near = plans_[s]->bring({.begin = sample, .end = sample + count}, reads);
      pins->push_back(std::move(near.pin));
      bytes += near.bytes;
    }
    return {.pin = std::move(pins), .bytes = bytes};
  }
  [[nodiscard]] Sharing sharing() const override { return sharing_; }
  [[nodiscard]] bool changes_by_epoch() const override {
    return std::ranges::any_of(plans_, [](const auto& plan) { return plan->changes_by_epoch(); });
  }
  [[nodiscard]] ReadCounts counts() const override {
    ReadCounts sum;
    for (const auto& plan : plans_) sum += plan->counts();
    return sum;
  }

  JoinedPlan(const Source& joined, const FileSamples& samples, std::vector<std::unique_ptr<ReadPlan>> plans)
      : ReadPlan(joined), plans_(std::move(plans)), samples_(samples) {}

 private:
  template <typename Call>
  void each_of(std::span<const SampleId> ids, Call call) {
    std::vector<std::vector<SampleId>> own(plans_.size());
    for (const SampleId id : ids) {
      const auto [s, sample] = samples_.find(id.value);
      own[s].push_back({sample});
    }
    for (std::size_t s = 0; s < plans_.size(); ++s) call(*plans_[s], own[s]);
  }

  std::vector<std::unique_ptr<ReadPlan>> plans_;
  Sharing sharing_ = Sharing::none;  // the most of theirs
  const FileSamples& samples_;
};

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

  // Of those that have instances for workers; the others are shared as before.
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto sources = sources_;
    for (auto& source : sources) {
      if (auto own = instance_of(*source, worker)) source = std::move(own);
    }
    return sources == sources_ ? nullptr : std::make_unique<Joined>(*this, std::move(sources));
  }

  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return sizes_by(ask_part_sizes); }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    const auto has_units = [](const auto& source) { return !source->unit_sizes().empty(); };
    if (std::ranges::none_of(sources_, has_units)) return {};
    return sizes_by(ask_unit_sizes);
  }

  // Of each source as many, or of some sources one.
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const override {
    std::vector<SampleContent> all;
    const std::int64_t asked = std::min(most, std::ssize(sources_));
    for (std::int64_t k = 0; k < asked; ++k) {
      auto own = content_of(*sources_[static_cast<std::size_t>(share(std::ssize(sources_), k, asked))],
                            most / asked);
      std::ranges::move(own, std::back_inserter(all));
    }
    return all;
  }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return will_read_by_plan(*this, first, count);
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    return std::make_unique<JoinedPlan>(*this, sources_, samples_, open);
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
