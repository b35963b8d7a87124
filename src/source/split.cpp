#include <algorithm>
#include <cmath>
#include <utility>

#include "core/failure.hpp"
#include "order/permutation.hpp"
#include "rota/source.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

/// The samples that a permutation of a dataset sends to the places [first, last).
struct Places {
  std::vector<Field> fields;
  Permutation permutation;
  std::uint64_t seed;
  std::int64_t first;
  std::int64_t last;
};

class SplitPart final : public Source, public PlannedSource {
 public:
  SplitPart(std::shared_ptr<const Source> whole, Places places)
      : whole_(std::move(whole)), places_(std::move(places)) {}

  [[nodiscard]] std::int64_t size() const override { return places_.last - places_.first; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return places_.fields; }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    whole_->rows(translate(ids), field, out);
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    whole_->read(translate(ids), out);
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    check_ids(*this, wanted);
    std::vector<SampleRows> translated(wanted.begin(), wanted.end());
    for (SampleRows& part : translated) part.id = translate(part.id);
    whole_->read_rows(translated, field);
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto whole = instance_of(*whole_, worker);
    return whole ? std::make_unique<SplitPart>(std::move(whole), places_) : nullptr;
  }

  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    const auto ids = [this](std::span<const SampleId> own) { return translate(own); };
    return std::make_unique<MappedPlan>(*this, *whole_, open, MappedPlan::Map{.ids = ids});
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const override {
    return content_of(*whole_, most);
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder()
        .add("split")
        .add(whole_->fingerprint())
        .add(static_cast<std::int64_t>(places_.seed))
        .add(places_.first)
        .add(places_.last)
        .finish();
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    return id.value >= 0 && id.value < size() ? whole_->where(translate(id)) : std::string();
  }

 private:
  [[nodiscard]] SampleId translate(SampleId id) const noexcept {
    return {places_.permutation(places_.first + id.value)};
  }

  [[nodiscard]] std::vector<SampleId> translate(std::span<const SampleId> ids) const {
    check_ids(*this, ids);
    std::vector<SampleId> result(ids.size());
    std::transform(ids.begin(), ids.end(), result.begin(), [this](SampleId id) { return translate(id); });
    return result;
  }

  std::shared_ptr<const Source> whole_;
  Places places_;
};

void check_fractions(std::span<const double> fractions) {
  double sum = 0;
  for (const double fraction : fractions) {
    if (!(fraction >= 0)) {
      throw failure(ErrorCode::invalid_argument, "split a dataset: a fraction is {}; each must be 0 or more",
                    fraction);
    }
    sum += fraction;
  }
  if (std::abs(sum - 1) <= 1e-9) return;
  throw failure(ErrorCode::invalid_argument, "split a dataset: the fractions sum to {}; make them sum to 1",
                sum);
}

}  // namespace

}  // namespace rota::internal

namespace rota {

std::vector<std::shared_ptr<const Source>> split(const std::shared_ptr<const Source>& source,
                                                 std::span<const double> fractions, std::uint64_t seed) {
  internal::require_source(source, "split a dataset");
  internal::check_fractions(fractions);
  const internal::SourceFacts facts = internal::ask_facts(*source, "split a dataset");
  const std::int64_t size = facts.size;
  const internal::Permutation permutation(size, internal::derive_key(seed, 0, internal::Purpose::split, 0));
  std::vector<std::shared_ptr<const Source>> parts;
  std::int64_t first = 0;
  long double sum = 0;
  for (std::size_t k = 0; k < fractions.size(); ++k) {
    sum += fractions[k];
    const auto rounded = static_cast<std::int64_t>(std::llround(sum * static_cast<long double>(size)));
    const std::int64_t last = k + 1 == fractions.size() ? size : std::clamp(rounded, first, size);
    parts.push_back(std::make_shared<internal::SplitPart>(
        source, internal::Places{facts.fields, permutation, seed, first, last}));
    first = last;
  }
  return parts;
}

}  // namespace rota
