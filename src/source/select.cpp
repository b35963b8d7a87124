#include <algorithm>
#include <string_view>
#include <utility>

#include "core/failure.hpp"
#include "rota/source.hpp"
#include "source/file_samples.hpp"
#include "source/mapped_source.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kSelecting = "select samples";

struct ChosenIds {
  std::shared_ptr<const void> keep;
  std::span<const SampleId> ids;
  Fingerprint digest;
};

class Selected final : public MappedSource {
 public:
  Selected(std::shared_ptr<const Source> whole, std::vector<Field> fields, ChosenIds chosen)
      : MappedSource(std::move(whole), std::move(fields), std::ssize(chosen.ids)),
        chosen_(std::move(chosen)) {}

  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder().add("select").add(whole().fingerprint()).add(chosen_.digest).finish();
  }

 private:
  [[nodiscard]] SampleId original(SampleId id) const noexcept override {
    return chosen_.ids[static_cast<std::size_t>(id.value)];
  }
  [[nodiscard]] std::unique_ptr<const Source> of(std::shared_ptr<const Source> whole) const override {
    return std::make_unique<Selected>(std::move(whole), fields(), chosen_);
  }

  ChosenIds chosen_;
};

/// Neighbours.
class Stretch final : public MappedSource {
 public:
  Stretch(std::shared_ptr<const Source> whole, SourceFacts facts, SampleRange range)
      : MappedSource(std::move(whole), std::move(facts.fields), range.end - range.begin),
        size_of_whole_(facts.size),
        range_(range) {}

  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder()
        .add("stretch")
        .add(whole().fingerprint())
        .add(range_.begin)
        .add(range_.end)
        .finish();
  }

  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override {
    return cut(ask_part_sizes(whole(), size_of_whole_, kTaking));
  }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    return cut(ask_unit_sizes(whole(), size_of_whole_, kTaking));
  }
  // Of whole files, as those of the whole are.
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    if (ask_shard_lengths(whole(), size_of_whole_, shards, kTaking).empty()) return {};
    FileSamples files;
    for (const std::int64_t size : part_sizes()) files.add(size);
    return files.shard_lengths(shards);
  }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return will_read_by_plan(*this, first, count);
  }

  static constexpr std::string_view kTaking = "take samples";

 private:
  [[nodiscard]] SampleId original(SampleId id) const noexcept override { return {range_.begin + id.value}; }
  [[nodiscard]] std::function<SampleRange(SampleRange)> original_range() const override {
    return [this](SampleRange own) {
      check_range(own, size());
      return SampleRange{.begin = range_.begin + own.begin, .end = range_.begin + own.end};
    };
  }
  [[nodiscard]] std::unique_ptr<const Source> of(std::shared_ptr<const Source> whole) const override {
    return std::make_unique<Stretch>(std::move(whole), SourceFacts{size_of_whole_, fields()}, range_);
  }

  // What of these runs of samples of the whole is in here.
  [[nodiscard]] std::vector<std::int64_t> cut(const std::vector<std::int64_t>& lengths) const {
    std::vector<std::int64_t> own;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      const std::int64_t end = begin + length;
      const std::int64_t common = std::min(end, range_.end) - std::max(begin, range_.begin);
      if (common > 0) own.push_back(common);
      begin = end;
    }
    return own;
  }

  std::int64_t size_of_whole_;
  SampleRange range_;
};

// The first `n`, or the others.
std::shared_ptr<const Source> stretch(const std::shared_ptr<const Source>& source, std::int64_t n,
                                      bool takes) {
  require_source(source, Stretch::kTaking);
  SourceFacts facts = ask_facts(*source, Stretch::kTaking);
  if (n < 0 || n > facts.size) {
    throw failure(ErrorCode::out_of_range, "{} the first {} samples: the dataset has {}; give 0 to that",
                  takes ? "take" : "skip", n, facts.size);
  }
  const SampleRange range{.begin = takes ? 0 : n, .end = takes ? n : facts.size};
  return std::make_shared<Stretch>(source, std::move(facts), range);
}

}  // namespace

std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source,
                                     std::shared_ptr<const void> keep, std::span<const SampleId> ids) {
  require_source(source, kSelecting);
  SourceFacts facts = ask_facts(*source, kSelecting);
  const auto is_none = [&](SampleId id) { return id.value < 0 || id.value >= facts.size; };
  if (const auto none = std::ranges::find_if(ids, is_none); none != ids.end()) {
    throw failure(ErrorCode::out_of_range,
                  "{}: ids[{}] is {}; the dataset has {} samples; ids go from 0 to one less", kSelecting,
                  none - ids.begin(), none->value, facts.size);
  }
  const auto* const numbers = reinterpret_cast<const std::int64_t*>(ids.data());
  const Fingerprint digest = FingerprintBuilder().add(std::span(numbers, ids.size())).finish();
  return std::make_shared<Selected>(source, std::move(facts.fields),
                                    ChosenIds{.keep = std::move(keep), .ids = ids, .digest = digest});
}

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source, std::vector<SampleId> ids) {
  const auto keep = std::make_shared<const std::vector<SampleId>>(std::move(ids));
  return internal::select(source, keep, *keep);
}

std::shared_ptr<const Source> take(const std::shared_ptr<const Source>& source, std::int64_t n) {
  return internal::stretch(source, n, true);
}
std::shared_ptr<const Source> skip_first(const std::shared_ptr<const Source>& source, std::int64_t n) {
  return internal::stretch(source, n, false);
}

}  // namespace rota
