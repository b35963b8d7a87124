#include "resume/other_datasets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/owned.hpp"
#include "loader/loader_impl.hpp"
#include "order/open_samples.hpp"
#include "order/run_state.hpp"
#include "order/run_way.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

using Names = std::vector<std::string>;
using Weights = std::vector<double>;

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

// Where each of `from` is in `to`.
std::vector<std::size_t> places(const Names& from, const Names& to) {
  std::vector<std::size_t> at;
  for (const std::string& name : from)
    at.push_back(static_cast<std::size_t>(std::ranges::find(to, name) - to.begin()));
  return at;
}

// Values by other numbers; of those that have none, `missing`.
Weights by(const std::vector<std::size_t>& at, const Weights& values, std::size_t count, double missing) {
  if (values.empty()) return {};
  Weights made(count, missing);
  for (std::size_t i = 0; i < values.size() && i < at.size(); ++i) {
    if (at[i] < count) made[at[i]] = values[i];
  }
  return made;
}

RunPlan by(const std::vector<std::size_t>& at, RunPlan plan, std::size_t count, double tokens) {
  for (Stage& stage : plan.stages) {
    stage.weights = by(at, stage.weights, count, 0);
    stage.toward = by(at, stage.toward, count, 0);
  }
  plan.tokens_per_sample = by(at, plan.tokens_per_sample, count, tokens);
  return plan;
}

/// A mixture, and the state that it goes on from.
class Matching {
 public:
  Matching(const SavedState& saved, const Mixture& mixture, const Names& numbered,
           const LoaderOptions& options)
      : saved_(saved),
        state_(saved.object()),
        mixture_(state_.object("mixture")),
        then_(datasets_in(mixture_)),
        own_(mixture),
        numbered_(numbered),
        options_(options) {
    saved_.require_digest();
    for (const auto& [name, known] : then_) {
      if (name.empty() || std::ranges::find(names_, name) != names_.end())
        mixture_.fail("datasets", "have no names, or one twice");
      names_.push_back(name);
    }
    if (options_.rank_split == Split::balanced) {
      saved_.fail(
          ErrorCode::unsupported,
          "the datasets are others than then, and lengths of a balance go by their numbers: go on without "
          "rank_split balanced, or with the same datasets");
    }
    for (const std::string& name : own_.names()) {
      if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
    }
  }

  [[nodiscard]] Renumbered make() {
    const Mixture mixture = by_numbers();
    if (!absent_.empty() && !options_.plan.empty()) {
      saved_.fail(
          ErrorCode::mismatch,
          fmt::format("the dataset {} is not there any more, and there is a plan: make the loader without a "
                      "plan, and call replan() behind the restore",
                      names_[absent_.front()]));
    }
    LoaderOptions options = options_;
    options.plan = by(places(numbered_, names_), options_.plan, names_.size(), 1);
    OrderedSource ordered = put_in_order(mixture, options);
    Json state = extended(ordered.run);
    return {std::move(options), std::move(ordered), std::move(state),
            static_cast<std::int64_t>(names_.size() - then_.size()), absent_};
  }

 private:
  Mixture by_numbers() {
    Mixture made{.datasets = {}, .end = own_.end, .steps = own_.steps};
    const std::vector<std::int64_t> sizes = mixture_.numbers("sizes");
    if (sizes.size() != then_.size() || std::ranges::count(sizes, 0) > 0)
      mixture_.fail("sizes", "are not those of as many datasets");
    for (std::size_t d = 0; d < names_.size(); ++d) {
      const auto part = std::ranges::find(own_.datasets, names_[d], &Mixture::Part::name);
      if (part != own_.datasets.end()) {
        made.datasets.push_back(*part);
        if (d < then_.size()) require_same(*part->source, then_[d], sizes[d]);
        continue;
      }
      absent_.push_back(d);
      made.datasets.push_back(
          {.source = std::make_shared<AbsentSource>(names_[d], sizes[d], then_[d].second,
                                                    own_.datasets.front().source->fields()),
           .weight = 0,
           .name = names_[d]});
    }
    return made;
  }

  void require_same(const Source& source, const std::pair<std::string, Fingerprint>& then,
                    std::int64_t size) const {
    const auto told = [](std::int64_t samples, Fingerprint known) {
      return fmt::format("{} samples with fingerprint {}", samples, to_string(known));
    };
    saved_.require_same(fmt::format("the dataset {}", then.first), told(size, then.second),
                        told(source.size(), source.fingerprint()));
  }

  // The same with nothing of the new datasets.
  [[nodiscard]] Json extended(const Run& run) const {
    const Json now(state_of(run, {}, 1));
    const std::size_t more = names_.size() - then_.size();
    require_lengths(run);
    Json state = Json::parse(state_text());
    for (const char* key : {"dataset", "samples", "lengths"}) state["order"][key] = now["order"][key];
    state.erase("content");  // of which each dataset had another part
    Json& mixture = state["mixture"];
    for (const char* key : {"sizes", "datasets"}) mixture[key] = now["mixture"][key];
    const auto add = [&](Json& object, const char* key) {
      if (object.contains(key)) object[key].insert(object[key].end(), more, Json(0));
    };
    for (const char* key : {"weights", "counts", "given"}) add(mixture, key);
    if (state.contains(kOpen)) state[std::string(kOpen)] = with_none_open(more);
    if (!state.contains(kWay)) return state;
    Json& way = state[std::string(kWay)];
    if (way.contains("mixture"))
      for (const char* key : {"weights", "counts"}) add(way["mixture"], key);
    if (way.contains("changes"))
      for (Json& change : way["changes"]) add(change, "weights");
    if (way.contains("plan")) way["plan"] = Json::parse(to_string(plan_of(run)));
    return state;
  }

  [[nodiscard]] std::string state_text() const { return saved_.json().dump(); }

  void require_lengths(const Run& run) const {
    const auto& orders = RunAccess::order(run)->orders;
    const Fingerprint known = digest_lengths(std::span(orders).first(then_.size()));
    saved_.require_same("the digest of the shards' lengths", state_.object("order").text("lengths"),
                        to_string(known));
  }

  // What is open, with none of the new datasets. A dataset that is not there has none, for they would be
  // read.
  [[nodiscard]] std::string with_none_open(std::size_t more) const {
    const Run then = run_of(saved_);
    for (const OpenTurn& one : RunAccess::open(then)) {
      if (std::ranges::find(absent_, static_cast<std::size_t>(one.dataset)) == absent_.end()) continue;
      saved_.fail(
          ErrorCode::mismatch,
          fmt::format("samples of the dataset {} are open, and it is not there any more; go on with it until "
                      "they are settled",
                      names_[static_cast<std::size_t>(one.dataset)]));
    }
    return to_base64(from_base64(state_, kOpen) + std::string(more, '\0'));
  }

  // The state's plan, in which a dataset that is not there has weight 0 in the stages to come.
  [[nodiscard]] RunPlan plan_of(const Run& run) const {
    const RunPlace place = place_of(state_);
    std::vector<std::size_t> at(then_.size());
    for (std::size_t d = 0; d < at.size(); ++d) at[d] = d;
    RunPlan plan = by(at, place.way.value().plan, names_.size(), 1);
    const std::vector<double>& tokens = run.plan().tokens_per_sample;
    if (!plan.tokens_per_sample.empty() && names_.size() > then_.size() && tokens.empty()) {
      saved_.fail(
          ErrorCode::mismatch,
          fmt::format("its plan counts tokens, and there is no number of them of {}: give a plan with "
                      "tokens_per_sample",
                      names_.back()));
    }
    for (std::size_t d = then_.size(); d < names_.size() && !plan.tokens_per_sample.empty(); ++d)
      plan.tokens_per_sample[d] = tokens[d];
    if (absent_.empty()) return plan;
    const Run then = run_of(saved_);
    for (Stage& stage : plan.stages) {
      if (RunAccess::path(then).has_begun(stage, then.position())) continue;
      for (std::vector<double>* const weights : {&stage.weights, &stage.toward}) {
        if (weights->empty()) continue;
        for (const std::size_t d : absent_) (*weights)[d] = 0;
        if (std::ranges::any_of(*weights, [](double weight) { return weight > 0; })) continue;
        saved_.fail(
            ErrorCode::mismatch,
            fmt::format("a stage of its plan is of the dataset {} alone, which is not there any more; let "
                        "the run that has it go on by another plan first",
                        names_[absent_.front()]));
      }
    }
    return plan;
  }

  const SavedState& saved_;
  JsonObject state_;
  JsonObject mixture_;
  std::vector<std::pair<std::string, Fingerprint>> then_;
  const Mixture& own_;
  const Names& numbered_;  // of the plan's weights
  const LoaderOptions& options_;
  Names names_;  // by number
  std::vector<std::size_t> absent_ = {};
};

}  // namespace

std::optional<Renumbered> renumbered(const SavedState& saved, const Loader& loader) {
  const JsonObject state = saved.object();
  const Names numbered = loader.names();
  if (numbered.empty() || !state.has("mixture") || !state.object("mixture").has("datasets"))
    return std::nullopt;
  const auto then = datasets_in(state.object("mixture"));
  const auto& impl = Behind::of(loader);
  const Names own = impl.mixture.names();
  const bool are_there = std::ranges::all_of(
      numbered, [&](const std::string& name) { return std::ranges::find(own, name) != own.end(); });
  if (are_there && std::ranges::equal(then, numbered, {}, &std::pair<std::string, Fingerprint>::first))
    return std::nullopt;
  try {
    return Matching(saved, impl.mixture, numbered, impl.options).make();
  } catch (const Json::exception& error) {
    saved.fail(fmt::format("it cannot be ({})", error.what()));
  }
}

Renewal::Renewal(Loader& loader, const SavedState& saved)
    : loader_(loader), saved_(saved), made_(renumbered(saved, loader)) {
  if (made_) state_.emplace(saved, std::move(made_->state));
}

void Renewal::settle(Run& moved) const {
  if (!made_ || made_->absent.empty()) return;
  const auto has_turns = [&](const Stretch& stretch) {
    return std::ranges::any_of(made_->absent,
                               [&](std::size_t d) { return stretch.mixture()->weights[d] > 0; });
  };
  if (has_turns(RunAccess::stretch(moved))) RunAccess::change(moved, 0, RunAccess::order(moved)->given);
  for (const Stretch& stretch : RunAccess::path(moved).stretches()) {
    if (stretch.begin.step < moved.position().step || !has_turns(stretch)) continue;
    saved_.fail(
        ErrorCode::mismatch,
        fmt::format(
            "from step {} on weights of a stage that has begun give turns to the dataset {}, which is "
            "not there any more; let the run that has it go on by another plan first",
            stretch.begin.step, RunAccess::order(moved)->names[made_->absent.front()]));
  }
}

void Renewal::take() {
  if (!made_) return;
  auto& owner = Behind::owner(loader_);
  owner = owner->renewed(std::move(made_->ordered), std::move(made_->options), *owner);
}

}  // namespace rota::internal
