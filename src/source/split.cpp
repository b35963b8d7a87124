#include <algorithm>
#include <cmath>
#include <utility>

#include "core/failure.hpp"
#include "order/permutation.hpp"
#include "rota/source.hpp"
#include "source/mapped_source.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

/// The samples that a permutation of a dataset sends to the places [first, last).
struct Places {
  Permutation permutation;
  std::uint64_t seed;
  std::int64_t first;
  std::int64_t last;
};

class SplitPart final : public MappedSource {
 public:
  SplitPart(std::shared_ptr<const Source> whole, std::vector<Field> fields, Places places)
      : MappedSource(std::move(whole), std::move(fields), places.last - places.first),
        places_(std::move(places)) {}

  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder()
        .add("split")
        .add(whole().fingerprint())
        .add(static_cast<std::int64_t>(places_.seed))
        .add(places_.first)
        .add(places_.last)
        .finish();
  }

 private:
  [[nodiscard]] SampleId original(SampleId id) const noexcept override {
    return {places_.permutation(places_.first + id.value)};
  }
  [[nodiscard]] std::unique_ptr<const Source> of(std::shared_ptr<const Source> whole) const override {
    return std::make_unique<SplitPart>(std::move(whole), fields(), places_);
  }

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
    parts.push_back(std::make_shared<internal::SplitPart>(source, facts.fields,
                                                          internal::Places{permutation, seed, first, last}));
    first = last;
  }
  return parts;
}

}  // namespace rota
