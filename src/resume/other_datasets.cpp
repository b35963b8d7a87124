#include "resume/other_datasets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/owned.hpp"
#include "loader/loader_impl.hpp"
#include "rota/select.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

// What has a number, and was left out.
class AbsentSource final : public Source {
 public:
  AbsentSource(std::string name, std::int64_t samples, Fingerprint known, std::vector<Field> fields)
      : name_(std::move(name)), samples_(samples), known_(known), fields_(std::move(fields)) {}

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  void rows(std::span<const SampleId> /*ids*/, std::size_t /*field*/,
            std::span<std::int64_t> /*out*/) const override {
    refuse();
  }
  void read(std::span<const SampleId> /*ids*/, const BatchView& /*out*/) const override { refuse(); }
  [[nodiscard]] Fingerprint fingerprint() const override { return known_; }
  [[nodiscard]] std::string where(SampleId /*id*/) const override { return name_; }

 private:
  [[noreturn]] void refuse() const {
    throw failure(ErrorCode::invalid_argument,
                  "read the dataset {}: it was left out when the run went on; make the loader with it again",
                  name_);
  }

  std::string name_;
  std::int64_t samples_;
  Fingerprint known_;
  std::vector<Field> fields_;
};

// What a part of a dataset is called, and the name before that.
std::string part_name(const std::string& whole, std::int64_t begin) {
  return begin == 0 ? whole : fmt::format("{}@{}", whole, begin);
}
std::string_view whole_of(std::string_view name) { return name.substr(0, name.find('@')); }

// The parts that a state has of one dataset, and what has grown behind them; itself, where it has not.
std::vector<Mixture::Part> parts_of(const SavedState& saved, const Mixture::Part& whole) {
  const JsonObject mixture = saved.object().object("mixture");
  const auto then = datasets_in(mixture);
  const std::vector<std::int64_t> sizes = mixture.numbers("sizes");
  if (sizes.size() != then.size()) mixture.fail("sizes", "are not those of as many datasets");
  const std::int64_t size = whole.source->size();
  const Fingerprint own = whole.source->fingerprint();
  std::vector<Mixture::Part> parts;
  std::int64_t had = 0;
  const auto add = [&](std::int64_t count, const Fingerprint& known) {
    const auto some = take(skip_first(whole.source, had), count);
    parts.push_back({.source = known_as(some, known, some->fingerprint()),
                     .weight = whole.weight * static_cast<double>(count) / static_cast<double>(size),
                     .name = part_name(whole.name, had)});
    had += count;
  };
  Fingerprint last = own;
  for (;;) {
    const auto known =
        std::ranges::find(then, part_name(whole.name, had), &std::pair<std::string, Fingerprint>::first);
    if (known == then.end()) break;
    const std::int64_t count = sizes[static_cast<std::size_t>(known - then.begin())];
    if (count < 1 || count > size - had) {
      saved.fail(ErrorCode::mismatch,
                 fmt::format("the dataset {} has {} samples, and had {} or more; give all of "
                             "them, in their order, and new ones behind",
                             whole.name, size, had + count));
    }
    last = known->second;
    add(count, last);
  }
  if (had == size && parts.size() > 1)
    saved.require_same(fmt::format("the dataset {}", whole.name), to_string(last), to_string(own));
  if (parts.empty() || (had == size && parts.size() == 1)) return {whole};
  if (!PlannedSource::keeps_samples_of(*whole.source)) {
    saved.fail(
        ErrorCode::mismatch,
        fmt::format(
            "the dataset {} has grown, and repeat(), weighted(), split(), pack() or windows that clamp make "
            "other samples of it; give what is new to a dataset of its own, of another name",
            whole.name));
  }
  if (had < size) add(size - had, own);
  return parts;
}

// By what datasets hold that the state knows, unless one is only said to be the same. Each has a part of what
// is looked at, so these are looked at alone.
void require_content(const SavedState& saved, const Mixture& given, const Mixture& now) {
  const std::size_t count = datasets_in(saved.object().object("mixture")).size();
  std::vector<std::shared_ptr<const Source>> known;
  const auto tells = [](const Mixture::Part& part) {
    return !PlannedSource::content_of(*part.source, 1).empty();
  };
  for (std::size_t d = 0; d < count; ++d) {
    const Mixture::Part& part = now.datasets[d];
    const std::string_view name = std::string_view(part.name).substr(0, part.name.find('@'));
    const auto whole = std::ranges::find(given.datasets, name, &Mixture::Part::name);
    // A part of it may be unable to say what the whole could: then nobody knows which sample is which.
    if (whole != given.datasets.end() && tells(*whole) != tells(part)) return;
    known.push_back(part.source);
  }
  const auto is_said = [](const Mixture::Part& part) { return own_fingerprint(*part.source).has_value(); };
  if (std::ranges::any_of(given.datasets, is_said)) return;
  const auto content = PlannedSource::content_of(*join(std::move(known)), kSamplesOfContent);
  require_same_content(saved, [&]() -> const std::vector<SampleContent>& { return content; });
}

// Nothing where none may have grown, or has.
std::optional<InParts> in_parts(const SavedState& saved, const Loader& loader) {
  const Mixture& own = Behind::of(loader).mixture;
  const JsonObject state = saved.object();
  if (!own.grown || !state.has("mixture") || !state.object("mixture").has("datasets")) return std::nullopt;
  saved.require_digest();
  Mixture mixture{.datasets = {}, .end = own.end, .steps = own.steps};
  for (const Mixture::Part& part : own.datasets)
    std::ranges::move(parts_of(saved, part), std::back_inserter(mixture.datasets));
  if (mixture.datasets.size() == own.datasets.size()) return std::nullopt;
  LoaderOptions options = loader.options();
  for (const Stage& stage : options.plan.stages) {
    if (stage.weights.empty()) continue;
    saved.fail(
        ErrorCode::mismatch,
        fmt::format(
            "datasets have grown, and there is a plan with weights: make the loader without a plan, and "
            "call replan() behind the restore, with weights of {}",
            fmt::join(mixture.names(), ", ")));
  }
  if (!options.plan.tokens_per_sample.empty()) {
    const std::vector<std::string> names = loader.names();
    std::vector<double> tokens;  // each part as the whole
    for (const std::string& name : mixture.names()) {
      const auto same = [&](const std::string& other) { return whole_of(other) == whole_of(name); };
      const auto at = std::ranges::find_if(names, same) - names.begin();
      tokens.push_back(options.plan.tokens_per_sample[static_cast<std::size_t>(at)]);
    }
    options.plan.tokens_per_sample = std::move(tokens);
  }
  OrderedSource ordered = put_in_order(mixture, options);
  return InParts{std::move(mixture), std::move(options), std::move(ordered)};
}

}  // namespace

Renewal::Renewal(Loader& loader, const SavedState& saved) : Renewal(loader, saved, in_parts(saved, loader)) {}

Renewal::Renewal(Loader& loader, const SavedState& saved, std::optional<InParts> parts)
    : Renumbering(saved, parts ? parts->ordered.run : loader.run(),
                  parts ? parts->mixture.names() : Behind::of(loader).mixture.names(),
                  loader.options().rank_split),
      loader_(loader),
      options_(parts ? parts->options : loader.options()) {
  if (parts) ordered_ = parts->ordered;
  if (!is_other()) return;
  const Mixture& own = parts ? parts->mixture : Behind::of(loader).mixture;
  Mixture mixture{.datasets = {}, .end = own.end, .steps = own.steps};
  for (const RunData& data : run().data()) {
    const auto part = std::ranges::find(own.datasets, data.name, &Mixture::Part::name);
    if (part != own.datasets.end()) {
      mixture.datasets.push_back(*part);
      continue;
    }
    auto none = std::make_shared<AbsentSource>(data.name, data.samples, *data.fingerprint,
                                               own.datasets.front().source->fields());
    mixture.datasets.push_back({.source = std::move(none), .weight = 0, .name = data.name});
  }
  if (RunAccess::order(run())->absent.empty()) require_content(saved, Behind::of(loader).mixture, mixture);
  options_.plan = RunAccess::own_plan(run());
  ordered_ = put_in_order(mixture, options_);
}

AskContent Renewal::ask_content(AskContent own) const {
  if (!ordered_) return own;
  const auto content = std::make_shared<std::vector<SampleContent>>();
  return [content, source = ordered_->source]() -> const std::vector<SampleContent>& {
    *content = PlannedSource::content_of(*source, kSamplesOfContent);
    return *content;
  };
}

void Renewal::take() {
  if (!ordered_) return;
  auto& owner = Behind::owner(loader_);
  owner = owner->renewed(std::move(*ordered_), std::move(options_), *owner);
}

}  // namespace rota::internal
