#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/failure.hpp"
#include "rota/source.hpp"
#include "source/field_check.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kZipping = "zip datasets";

class Zipped final : public Source, public PlannedSource {
 public:
  explicit Zipped(std::vector<std::shared_ptr<const Source>> sources) : sources_(std::move(sources)) {
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const SourceFacts facts = ask_facts(*sources_[s], kZipping);
      if (s == 0) size_ = facts.size;
      if (facts.size != size_) refuse_size(s, facts.size);
      for (const Field& field : facts.fields) {
        if (std::ranges::find(fields_, field.name, &Field::name) != fields_.end()) refuse(s, field);
      }
      firsts_.push_back(fields_.size());
      fields_.insert(fields_.end(), facts.fields.begin(), facts.fields.end());
    }
    check_fields(fields_, kZipping, "a sample of all", ErrorCode::invalid_argument);
  }

  /// The same samples, of `sources`.
  Zipped(const Zipped& other, std::vector<std::shared_ptr<const Source>> sources)
      : sources_(std::move(sources)), size_(other.size_), fields_(other.fields_), firsts_(other.firsts_) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    check_ids(*this, ids);
    const std::size_t s = source_of(field);
    sources_[s]->rows(ids, field - firsts_[s], out);
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const std::size_t end = s + 1 < sources_.size() ? firsts_[s + 1] : fields_.size();
      sources_[s]->read(ids, out.fields(firsts_[s], end - firsts_[s]));
    }
  }
  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    check_ids(*this, wanted);
    const std::size_t s = source_of(field);
    sources_[s]->read_rows(wanted, field - firsts_[s]);
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto sources = instances_of(sources_, worker);
    return sources.empty() ? nullptr : std::make_unique<Zipped>(*this, std::move(sources));
  }

  // Where one of any source ends.
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override {
    std::vector<std::int64_t> ends;
    for (const auto& source : sources_) {
      std::vector<std::int64_t> own = ask_part_sizes(*source, size_, kZipping);
      std::partial_sum(own.begin(), own.end(), own.begin());
      std::vector<std::int64_t> all;
      std::ranges::set_union(ends, own, std::back_inserter(all));
      ends = std::move(all);
    }
    std::adjacent_difference(ends.begin(), ends.end(), ends.begin());
    return ends;
  }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    return first_of([&](const Source& source) { return ask_unit_sizes(source, size_, kZipping); });
  }
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    return first_of([&](const Source& source) { return ask_shard_lengths(source, size_, shards, kZipping); });
  }

  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return will_read_by_plan(*this, first, count);
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const override {
    return content_of_all(sources_, most);
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    const auto ids = [count = sources_.size()](std::span<const SampleId> own) {
      return std::vector(count, std::vector(own.begin(), own.end()));
    };
    const auto range = [count = sources_.size()](SampleRange samples) {
      std::vector<JointPlan::Part> parts(count, {.samples = samples});
      for (std::size_t s = 0; s < count; ++s) parts[s].source = s;
      return parts;
    };
    return std::make_unique<JointPlan>(*this, sources_, open, JointPlan::Map{.ids = ids, .range = range});
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder builder;
    builder.add("zip");
    for (const auto& source : sources_) builder.add(source->fingerprint());
    return builder.finish();
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    std::string text;
    for (const auto& source : sources_) {
      const std::string own = id.value >= 0 && id.value < size_ ? source->where(id) : std::string();
      if (!own.empty() && own != text) text += (text.empty() ? "" : " and ") + own;
    }
    return text;
  }

 private:
  [[noreturn]] void refuse_size(std::size_t s, std::int64_t size) const {
    throw failure(ErrorCode::mismatch,
                  "{}: number 0 has {} samples; number {} has {}; take or select as many of each", kZipping,
                  size_, s, size);
  }
  [[noreturn]] void refuse(std::size_t s, const Field& field) const {
    throw failure(ErrorCode::invalid_argument,
                  "{}: number {} has a field \"{}\", and so has one before; leave it out of one of them",
                  kZipping, s, field.name);
  }

  [[nodiscard]] std::size_t source_of(std::size_t field) const noexcept {
    return static_cast<std::size_t>(std::ranges::upper_bound(firsts_, field) - firsts_.begin()) - 1;
  }

  template <typename Ask>
  [[nodiscard]] std::vector<std::int64_t> first_of(const Ask& ask) const {
    for (const auto& source : sources_) {
      if (auto lengths = ask(*source); !lengths.empty()) return lengths;
    }
    return {};
  }

  std::vector<std::shared_ptr<const Source>> sources_;
  std::int64_t size_ = 0;
  std::vector<Field> fields_;
  std::vector<std::size_t> firsts_;  // of each source, its first field
};

}  // namespace

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> zip(std::vector<std::shared_ptr<const Source>> sources) {
  if (sources.empty() || std::ranges::find(sources, nullptr) != sources.end()) {
    throw Error(ErrorCode::invalid_argument,
                "zip datasets: there must be one or more, and none may be missing (a null pointer)");
  }
  return std::make_shared<internal::Zipped>(std::move(sources));
}

}  // namespace rota
