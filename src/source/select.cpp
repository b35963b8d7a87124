#include "rota/select.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "core/failure.hpp"
#include "order/permutation.hpp"
#include "source/file_samples.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kSplit = "split";

/// Which samples of another dataset there are.
struct Choice {
  SourceFacts whole;
  std::int64_t size = 0;
  std::function<std::int64_t(std::int64_t)> original;  ///< of a sample that there is
  std::string_view kind;                               ///< for the fingerprint, as are `numbers`
  std::vector<std::int64_t> numbers;
  /// Where they are in their order: how many come before a sample of the whole. None: they lie all over.
  std::function<std::int64_t(std::int64_t)> before = {};
};

class Chosen final : public Source, public PlannedSource {
 public:
  Chosen(std::shared_ptr<const Source> whole, std::shared_ptr<const Choice> choice)
      : whole_(std::move(whole)), choice_(std::move(choice)) {}

  [[nodiscard]] std::int64_t size() const override { return choice_->size; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return choice_->whole.fields; }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    static_cast<void>(rows_in({}, ids, field, out));
  }
  bool rows_in(std::span<const std::int64_t> epochs, std::span<const SampleId> ids, std::size_t field,
               std::span<std::int64_t> out) const override {
    ask_rows(*whole_, epochs, originals(ids), field, out);
    return true;
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    whole_->read(originals(ids), out);
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    check_ids(*this, wanted);
    std::vector<SampleRows> translated(wanted.begin(), wanted.end());
    for (SampleRows& part : translated) part.id = original(part.id);
    whole_->read_rows(translated, field);
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto whole = instance_of(*whole_, worker);
    return whole ? std::make_unique<Chosen>(std::move(whole), choice_) : nullptr;
  }

  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    MappedPlan::Map map{.ids = [this](std::span<const SampleId> own) { return originals(own); }};
    const auto range = [this](SampleRange own) {
      check_range(own, size());
      if (own.begin == own.end) return SampleRange();
      return SampleRange{.begin = original({own.begin}).value, .end = original({own.end - 1}).value + 1};
    };
    if (choice_->before) map.range = range;
    return std::make_unique<MappedPlan>(*this, *whole_, open, std::move(map));
  }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return will_read_by_plan(*this, first, count);
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const override {
    if (choice_->before && of.begin < of.end)
      return content_of(*whole_, most,
                        {.begin = original({of.begin}).value, .end = original({of.end - 1}).value + 1});
    return of.end - of.begin < size() ? std::vector<SampleContent>() : content_of(*whole_, most);
  }

  [[nodiscard]] bool keeps_samples() const override {
    return choice_->kind != kSplit && keeps_samples_of(*whole_);
  }

  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return cut(ask_part_sizes); }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override { return cut(ask_unit_sizes); }
  // Of whole files, where those of the whole dataset are.
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    FileSamples files;
    if (choice_->before && !ask_shard_lengths(*whole_, choice_->whole.size, shards, kChoosing).empty())
      for (const std::int64_t size : part_sizes()) files.add(size);
    return files.shard_lengths(shards);
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder builder;
    builder.add(choice_->kind).add(whole_->fingerprint());
    for (const std::int64_t number : choice_->numbers) builder.add(number);
    return builder.finish();
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    return id.value >= 0 && id.value < size() ? whole_->where(original(id)) : std::string();
  }

 private:
  static constexpr std::string_view kChoosing = "choose samples";

  [[nodiscard]] SampleId original(SampleId id) const { return {choice_->original(id.value)}; }
  [[nodiscard]] std::vector<SampleId> originals(std::span<const SampleId> ids) const {
    check_ids(*this, ids);
    std::vector<SampleId> result(ids.size());
    std::transform(ids.begin(), ids.end(), result.begin(), [this](SampleId id) { return original(id); });
    return result;
  }

  // What is here of the runs of samples that the whole dataset has; none where these lie all over.
  template <typename Ask>
  [[nodiscard]] std::vector<std::int64_t> cut(const Ask& ask) const {
    std::vector<std::int64_t> own;
    if (!choice_->before) return own;
    std::int64_t end = 0;  // in the whole
    for (const std::int64_t length : ask(*whole_, choice_->whole.size, kChoosing)) {
      const std::int64_t common = choice_->before(end + length) - choice_->before(end);
      if (common > 0) own.push_back(common);
      end += length;
    }
    return own;
  }

  std::shared_ptr<const Source> whole_;
  std::shared_ptr<const Choice> choice_;
};

std::shared_ptr<const Source> choose(const std::shared_ptr<const Source>& source, Choice choice) {
  return std::make_shared<Chosen>(source, std::make_shared<const Choice>(std::move(choice)));
}

class KnownAs final : public PlannedAdaptor {
 public:
  KnownAs(std::shared_ptr<const Source> inner, const Fingerprint& was, const Fingerprint& now)
      : PlannedAdaptor(std::move(inner)), was_(was), now_(now) {}
  [[nodiscard]] Fingerprint fingerprint() const override { return was_; }
  [[nodiscard]] const Fingerprint& own() const noexcept { return now_; }
  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    inner().read_rows(wanted, field);
  }

 private:
  [[nodiscard]] std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
    return std::make_unique<KnownAs>(std::move(inner), was_, now_);
  }

  Fingerprint was_;
  Fingerprint now_;
};

// Samples [first, last), of which one is `n`, and may be 0 to the size.
std::shared_ptr<const Source> choose_range(const std::shared_ptr<const Source>& source, std::string_view verb,
                                           std::int64_t n) {
  require_source(source, verb);
  SourceFacts whole = ask_facts(*source, verb);
  if (n < 0 || n > whole.size) {
    throw failure(ErrorCode::out_of_range, "{} the first {} samples: the dataset has {}; give 0 to that",
                  verb, n, whole.size);
  }
  const std::int64_t first = verb == "take" ? 0 : n;
  const std::int64_t last = verb == "take" ? n : whole.size;
  return choose(source, {.whole = std::move(whole),
                         .size = last - first,
                         .original = [first](std::int64_t id) { return first + id; },
                         .kind = "range",
                         .numbers = {first, last},
                         .before = [=](std::int64_t id) { return std::clamp(id, first, last) - first; }});
}

// Throws Error{out_of_range} for one of `ids` that is none of its samples.
SourceFacts ask_of(const std::shared_ptr<const Source>& source, std::string_view task,
                   std::span<const SampleId> ids) {
  require_source(source, task);
  SourceFacts whole = ask_facts(*source, task);
  const auto is_none = [&](SampleId id) { return id.value < 0 || id.value >= whole.size; };
  if (const auto none = std::ranges::find_if(ids, is_none); none != ids.end()) {
    throw failure(ErrorCode::out_of_range,
                  "{}: ids[{}] is {}; the dataset has {} samples; ids go from 0 to one less", task,
                  none - ids.begin(), none->value, whole.size);
  }
  return whole;
}

std::span<const std::int64_t> numbers_of(std::span<const SampleId> ids) {
  return {reinterpret_cast<const std::int64_t*>(ids.data()), ids.size()};
}

std::vector<std::int64_t> digest_of(std::span<const std::int64_t> numbers) {
  const Fingerprint digest = FingerprintBuilder().add(numbers).finish();
  return {static_cast<std::int64_t>(digest.high), static_cast<std::int64_t>(digest.low)};
}

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

std::optional<Fingerprint> own_fingerprint(const Source& source) {
  const auto* const known = dynamic_cast<const KnownAs*>(&source);
  return known == nullptr ? std::nullopt : std::optional(known->own());
}

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
    parts.push_back(
        internal::choose(source, {.whole = facts,
                                  .size = last - first,
                                  .original = [=](std::int64_t id) { return permutation(first + id); },
                                  .kind = internal::kSplit,
                                  .numbers = {static_cast<std::int64_t>(seed), first, last}}));
    first = last;
  }
  return parts;
}

std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source,
                                     std::shared_ptr<const void> keep, std::span<const SampleId> ids) {
  internal::SourceFacts whole = internal::ask_of(source, "select samples", ids);
  const auto numbers = internal::numbers_of(ids);
  return internal::choose(
      source, {.whole = std::move(whole),
               .size = std::ssize(ids),
               .original = [keep = std::move(keep),
                            numbers](std::int64_t id) { return numbers[static_cast<std::size_t>(id)]; },
               .kind = "select",
               .numbers = internal::digest_of(numbers)});
}

std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source, std::vector<SampleId> ids) {
  const auto keep = std::make_shared<const std::vector<SampleId>>(std::move(ids));
  return select(source, keep, *keep);
}

std::shared_ptr<const Source> without(const std::shared_ptr<const Source>& source,
                                      std::vector<SampleId> ids) {
  internal::SourceFacts whole = internal::ask_of(source, "leave out samples", ids);
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  // Of each that is left out, the sample that comes in its place: itself less those before it.
  const auto gone = std::make_shared<std::vector<std::int64_t>>();
  for (const SampleId id : ids) gone->push_back(id.value - std::ssize(*gone));
  const std::int64_t size = whole.size - std::ssize(ids);
  const auto original = [gone](std::int64_t id) {
    return id + (std::ranges::upper_bound(*gone, id) - gone->begin());
  };
  const auto left = std::make_shared<const std::vector<SampleId>>(std::move(ids));
  return internal::choose(source, {.whole = std::move(whole),
                                   .size = size,
                                   .original = original,
                                   .kind = "without",
                                   .numbers = internal::digest_of(internal::numbers_of(*left)),
                                   .before = [left](std::int64_t id) {
                                     return id -
                                            (std::ranges::lower_bound(*left, SampleId{id}) - left->begin());
                                   }});
}

std::shared_ptr<const Source> take(const std::shared_ptr<const Source>& source, std::int64_t n) {
  return internal::choose_range(source, "take", n);
}

std::shared_ptr<const Source> known_as(const std::shared_ptr<const Source>& source, const Fingerprint& was,
                                       const Fingerprint& now) {
  constexpr std::string_view kTask = "know a dataset by another fingerprint";
  internal::require_source(source, kTask);
  const Fingerprint own = internal::ask(kTask, "fingerprint", [&] { return source->fingerprint(); });
  if (own == now) return std::make_shared<internal::KnownAs>(source, was, now);
  throw internal::failure(ErrorCode::mismatch,
                          "{}: its own is {}, and {} is said; look whether it is the dataset that you mean",
                          kTask, to_string(own), to_string(now));
}

std::shared_ptr<const Source> skip_first(const std::shared_ptr<const Source>& source, std::int64_t n) {
  return internal::choose_range(source, "skip", n);
}

}  // namespace rota
