#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "core/failure.hpp"
#include "rota/select.hpp"
#include "source/field_check.hpp"
#include "source/file_samples.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kJoining = "join datasets";

using Sources = std::vector<std::shared_ptr<const Source>>;

/// A dataset that is made of several.
class Several : public Source, public PlannedSource {
 public:
  Several(std::string_view kind, Sources sources, std::vector<Field> fields)
      : sources_(std::move(sources)), fields_(std::move(fields)), kind_(kind) {}

  [[nodiscard]] const std::vector<Field>& fields() const final { return fields_; }
  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const final {
    static_cast<void>(rows_in({}, ids, field, out));
  }
  // Of those that have instances for workers; the others are shared as before.
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const final {
    auto sources = sources_;
    for (auto& source : sources) {
      if (auto own = instance_of(*source, worker)) source = std::move(own);
    }
    return sources == sources_ ? nullptr : of(std::move(sources));
  }
  // Of each source as many, or of some sources one.
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const final {
    std::vector<SampleContent> all;
    const std::int64_t asked = of.end - of.begin < size() ? 0 : std::min(most, std::ssize(sources_));
    for (std::int64_t k = 0; k < asked; ++k) {
      auto own = content_of(*sources_[static_cast<std::size_t>(share(std::ssize(sources_), k, asked))],
                            most / asked);
      std::ranges::move(own, std::back_inserter(all));
    }
    return all;
  }
  [[nodiscard]] bool keeps_samples() const final {
    return std::ranges::all_of(sources_, [](const auto& source) { return keeps_samples_of(*source); });
  }
  [[nodiscard]] Fingerprint fingerprint() const final {
    FingerprintBuilder builder;
    builder.add(kind_);
    for (const auto& source : sources_) builder.add(source->fingerprint());
    return builder.finish();
  }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const final {
    return will_read_by_plan(*this, first, count);
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const final;

  // Of each source, what `ids` are made of.
  [[nodiscard]] virtual std::vector<std::vector<SampleId>> ids_of_each(
      std::span<const SampleId> ids) const = 0;
  using Parts = std::vector<std::pair<std::size_t, SampleRange>>;  // numbers of sources, and what of these
  [[nodiscard]] virtual Parts parts_of(SampleRange samples) const = 0;

 protected:
  /// The same samples, of `sources`.
  [[nodiscard]] virtual std::unique_ptr<const Source> of(Sources sources) const = 0;
  [[nodiscard]] const Sources& sources() const noexcept { return sources_; }
  [[nodiscard]] std::vector<Field>& own_fields() noexcept { return fields_; }

 private:
  Sources sources_;
  std::vector<Field> fields_;
  std::string_view kind_;
};

// Of each source its own.
class SeveralPlan final : public ReadPlan {
 public:
  // Both must outlive it.
  SeveralPlan(const Several& several, std::span<const std::shared_ptr<const Source>> sources,
              std::int64_t open)
      : ReadPlan(several), several_(several) {
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
    return has_any ? std::make_unique<SeveralPlan>(several_, std::move(plans)) : nullptr;
  }
  void pass(std::span<const SampleId> ids) override {
    each_of(ids, [](ReadPlan& plan, std::span<const SampleId> own) { plan.pass(own); });
  }
  // Where some have shared files, of these alone.
  [[nodiscard]] Near bring(SampleRange samples, bool reads) override {
    auto pins = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    std::int64_t bytes = 0;
    for (const auto& [s, own] : several_.parts_of(samples)) {
      ReadPlan& plan = *plans_[s];
      if (sharing_ != Sharing::none && plan.sharing() == Sharing::none) continue;
      Near near = plan.bring(own, reads);
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

  SeveralPlan(const Several& several, std::vector<std::unique_ptr<ReadPlan>> plans)
      : ReadPlan(several), several_(several), plans_(std::move(plans)) {}

 private:
  template <typename Call>
  void each_of(std::span<const SampleId> ids, Call call) {
    const auto own = several_.ids_of_each(ids);
    for (std::size_t s = 0; s < plans_.size(); ++s) call(*plans_[s], own[s]);
  }

  const Several& several_;
  std::vector<std::unique_ptr<ReadPlan>> plans_;
  Sharing sharing_ = Sharing::none;  // the most of theirs
};

std::unique_ptr<ReadPlan> Several::plan_reads(std::int64_t open) const {
  return std::make_unique<SeveralPlan>(*this, sources_, open);
}

class Joined final : public Several {
 public:
  explicit Joined(Sources sources) : Several("join", std::move(sources), {}) {
    for (std::size_t s = 0; s < this->sources().size(); ++s) {
      const SourceFacts facts = ask_facts(*this->sources()[s], kJoining);
      if (s == 0) own_fields() = facts.fields;
      if (facts.fields != fields()) refuse(s, facts.fields);
      if (facts.size > kMaxCount - size()) refuse_sum(s, facts.size);
      samples_.add(facts.size);
    }
  }

  Joined(const Joined& other, Sources sources)
      : Several("join", std::move(sources), other.fields()), samples_(other.samples_) {}

  [[nodiscard]] std::int64_t size() const override { return samples_.total(); }

  bool rows_in(std::span<const std::int64_t> epochs, std::span<const SampleId> ids, std::size_t field,
               std::span<std::int64_t> out) const override {
    by_source(ids, [&](const Source& source, std::span<const SampleId> own, std::size_t first) {
      const auto in = epochs.empty() ? epochs : epochs.subspan(first, own.size());
      ask_rows(source, in, own, field, out.subspan(first, own.size()));
    });
    return true;
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    by_source(ids, [&](const Source& source, std::span<const SampleId> own, std::size_t first) {
      source.read(own, out.part(first, own.size()));
    });
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    check_ids(*this, wanted);
    std::vector<std::vector<SampleRows>> own(sources().size());
    for (SampleRows rows : wanted) {
      const auto [s, sample] = samples_.find(rows.id.value);
      rows.id = {sample};
      own[s].push_back(rows);
    }
    for (std::size_t s = 0; s < sources().size(); ++s) {
      if (!own[s].empty()) sources()[s]->read_rows(own[s], field);
    }
  }

  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return sizes_by(ask_part_sizes); }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    const auto has_units = [](const auto& source) { return !source->unit_sizes().empty(); };
    if (std::ranges::none_of(sources(), has_units)) return {};
    return sizes_by(ask_unit_sizes);
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const auto [s, sample] = samples_.find(id.value);
    return sources()[s]->where({sample});
  }

  [[nodiscard]] std::vector<std::vector<SampleId>> ids_of_each(std::span<const SampleId> ids) const override {
    std::vector<std::vector<SampleId>> own(sources().size());
    for (const SampleId id : ids) {
      const auto [s, sample] = samples_.find(id.value);
      own[s].push_back({sample});
    }
    return own;
  }
  [[nodiscard]] Parts parts_of(SampleRange samples) const override {
    check_range(samples, size());
    Parts parts;
    for (std::int64_t count = 0; samples.begin < samples.end; samples.begin += count) {
      const auto [s, sample] = samples_.find(samples.begin);
      count = std::min(samples.end - samples.begin, samples_.count(s) - sample);
      parts.push_back({s, {.begin = sample, .end = sample + count}});
    }
    return parts;
  }

 private:
  [[nodiscard]] std::unique_ptr<const Source> of(Sources sources) const override {
    return std::make_unique<Joined>(*this, std::move(sources));
  }
  [[noreturn]] void refuse(std::size_t s, const std::vector<Field>& fields) const {
    throw failure(ErrorCode::invalid_argument,
                  "{}: number 0 has {}; number {} has {}; give all the same fields", kJoining,
                  describe(this->fields()), s, describe(fields));
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
    for (std::size_t s = 0; s < sources().size(); ++s) {
      const std::vector<std::int64_t> own = ask(*sources()[s], samples_.count(s), kJoining);
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
      work(*sources()[s], own, first);
    }
  }

  FileSamples samples_;  // of each source
};

constexpr std::string_view kZipping = "zip datasets";

class Zipped final : public Several {
 public:
  explicit Zipped(Sources sources) : Several("zip", std::move(sources), {}) {
    for (std::size_t s = 0; s < this->sources().size(); ++s) {
      const SourceFacts facts = ask_facts(*this->sources()[s], kZipping);
      if (s == 0) size_ = facts.size;
      if (facts.size != size_) {
        throw failure(ErrorCode::mismatch,
                      "{}: number 0 has {} samples; number {} has {}; take or select as many of each",
                      kZipping, size_, s, facts.size);
      }
      firsts_.push_back(fields().size());
      own_fields().insert(own_fields().end(), facts.fields.begin(), facts.fields.end());
    }
    check_fields(fields(), kZipping, "the zip, whose fields must have different names,",
                 ErrorCode::invalid_argument);
  }
  Zipped(const Zipped& other, Sources sources)
      : Several("zip", std::move(sources), other.fields()), size_(other.size_), firsts_(other.firsts_) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }

  bool rows_in(std::span<const std::int64_t> epochs, std::span<const SampleId> ids, std::size_t field,
               std::span<std::int64_t> out) const override {
    const std::size_t s = source_of(field);
    ask_rows(*sources()[s], epochs, ids, field - firsts_[s], out);
    return true;
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    for (std::size_t s = 0; s < sources().size(); ++s) {
      const std::size_t end = s + 1 < sources().size() ? firsts_[s + 1] : fields().size();
      sources()[s]->read(ids, out.fields(firsts_[s], end - firsts_[s]));
    }
  }
  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    const std::size_t s = source_of(field);
    sources()[s]->read_rows(wanted, field - firsts_[s]);
  }

  // Where one of any source ends.
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override {
    std::set<std::int64_t> ends;
    for (const auto& source : sources()) {
      std::int64_t end = 0;
      for (const std::int64_t size : ask_part_sizes(*source, size_, kZipping)) ends.insert(end += size);
    }
    std::vector<std::int64_t> sizes(ends.size());
    std::adjacent_difference(ends.begin(), ends.end(), sizes.begin());
    return sizes;
  }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    return first_of([&](const Source& source) { return ask_unit_sizes(source, size_, kZipping); });
  }
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    return first_of([&](const Source& source) { return ask_shard_lengths(source, size_, shards, kZipping); });
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    std::string text;
    for (const auto& source : sources()) {
      const std::string own = id.value >= 0 && id.value < size_ ? source->where(id) : std::string();
      if (!own.empty() && own != text) text += (text.empty() ? "" : " and ") + own;
    }
    return text;
  }

  [[nodiscard]] std::vector<std::vector<SampleId>> ids_of_each(std::span<const SampleId> ids) const override {
    return std::vector(sources().size(), std::vector(ids.begin(), ids.end()));
  }
  [[nodiscard]] Parts parts_of(SampleRange samples) const override {
    Parts parts;
    for (std::size_t s = 0; s < sources().size(); ++s) parts.push_back({s, samples});
    return parts;
  }

 private:
  [[nodiscard]] std::unique_ptr<const Source> of(Sources sources) const override {
    return std::make_unique<Zipped>(*this, std::move(sources));
  }
  [[nodiscard]] std::size_t source_of(std::size_t field) const noexcept {
    return static_cast<std::size_t>(std::ranges::upper_bound(firsts_, field) - firsts_.begin()) - 1;
  }
  template <typename Ask>
  [[nodiscard]] std::vector<std::int64_t> first_of(const Ask& ask) const {
    for (const auto& source : sources()) {
      if (auto lengths = ask(*source); !lengths.empty()) return lengths;
    }
    return {};
  }

  std::int64_t size_ = 0;
  std::vector<std::size_t> firsts_;  // of each source, its first field
};

void require_sources(const Sources& sources, std::string_view task) {
  if (!sources.empty() && std::ranges::find(sources, nullptr) == sources.end()) return;
  throw failure(ErrorCode::invalid_argument,
                "{}: there must be one or more, and none may be missing (a null pointer)", task);
}

}  // namespace

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> join(std::vector<std::shared_ptr<const Source>> sources) {
  internal::require_sources(sources, internal::kJoining);
  return std::make_shared<internal::Joined>(std::move(sources));
}

std::shared_ptr<const Source> zip(std::vector<std::shared_ptr<const Source>> sources) {
  internal::require_sources(sources, internal::kZipping);
  return std::make_shared<internal::Zipped>(std::move(sources));
}

}  // namespace rota
