#include "resume/renumbering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "order/open_samples.hpp"
#include "order/run_state.hpp"
#include "order/run_way.hpp"

namespace rota::internal {
namespace {

using Names = std::vector<std::string>;

// Where each of `from` is in `to`.
std::vector<std::size_t> places(const Names& from, const Names& to) {
  std::vector<std::size_t> at;
  for (const std::string& name : from)
    at.push_back(static_cast<std::size_t>(std::ranges::find(to, name) - to.begin()));
  return at;
}

// Values by other numbers; of those that have none, `missing`.
template <typename Value>
std::vector<Value> by(const std::vector<std::size_t>& at, const std::vector<Value>& values, std::size_t count,
                      Value missing) {
  if (values.empty()) return {};
  std::vector<Value> made(count, missing);
  for (std::size_t i = 0; i < values.size() && i < at.size(); ++i) {
    if (at[i] < count) made[at[i]] = values[i];
  }
  return made;
}

RunPlan by(const std::vector<std::size_t>& at, RunPlan plan, std::size_t count, double tokens) {
  for (Stage& stage : plan.stages) {
    stage.weights = by(at, stage.weights, count, 0.0);
    stage.toward = by(at, stage.toward, count, 0.0);
  }
  plan.tokens_per_sample = by(at, plan.tokens_per_sample, count, tokens);
  return plan;
}

/// A run over datasets with names, and the state that it goes on from.
class Matching {
 public:
  Matching(const SavedState& saved, const Run& run, const Names& own, Split split)
      : saved_(saved),
        state_(saved.object()),
        mixture_(state_.object("mixture")),
        then_(datasets_in(mixture_)),
        run_(run),
        own_(own) {
    saved_.require_digest();
    for (const auto& [name, known] : then_) {
      if (name.empty() || std::ranges::find(names_, name) != names_.end())
        mixture_.fail("datasets", "have no names, or one twice");
      names_.push_back(name);
    }
    if (split == Split::balanced) {
      saved_.fail(
          ErrorCode::unsupported,
          "the datasets are others than then, and lengths of a balance go by their numbers: go on without "
          "rank_split balanced, or with the same datasets");
    }
    for (const std::string& name : own_) {
      if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
    }
  }

  [[nodiscard]] Renumbering::Made make() {
    const std::vector<RunData> data = by_numbers();
    const RunPlan& plan = RunAccess::own_plan(run_);
    const bool is_tokens_alone = plan.stages.empty() && plan.skip.empty();
    if (!absent_.empty() && !is_tokens_alone) {
      saved_.fail(
          ErrorCode::mismatch,
          fmt::format("the dataset {} is not there any more, and there is a plan: make the loader without a "
                      "plan, and call replan() behind the restore",
                      names_[absent_.front()]));
    }
    const auto at = places(RunAccess::order(run_)->names, names_);
    RunOptions options = run_.options();
    if (!run_.plan().stages.empty()) options.global_batch_size = RunAccess::order(run_)->given_batch_size;
    options.plan = by(at, plan, names_.size(), 1);
    options.fingerprint.reset();
    std::vector<std::int64_t> given = by(at, RunAccess::order(run_)->given, names_.size(), std::int64_t{0});
    options.weights.assign(given.begin(), given.end());
    const Run made = RunAccess::make(data, options, std::move(given), absent_);
    Json state = extended(made);
    const auto added = static_cast<std::int64_t>(names_.size() - then_.size());
    if (!is_tokens_alone) return {made, std::move(state), added};
    options.plan = {};  // the state's goes on
    return {RunAccess::make(data, options, RunAccess::order(made)->given, absent_), std::move(state), added};
  }

 private:
  std::vector<RunData> by_numbers() {
    const std::vector<std::int64_t> sizes = mixture_.numbers("sizes");
    if (sizes.size() != then_.size() || std::ranges::count(sizes, 0) > 0)
      mixture_.fail("sizes", "are not those of as many datasets");
    const std::vector<RunData> all = run_.data();
    std::vector<RunData> made;
    for (std::size_t d = 0; d < names_.size(); ++d) {
      if (std::ranges::find(own_, names_[d]) == own_.end()) {
        absent_.push_back(d);
        made.push_back({.samples = sizes[d], .name = names_[d], .fingerprint = then_[d].second});
        continue;
      }
      made.push_back(*std::ranges::find(all, names_[d], &RunData::name));
      if (d < then_.size()) require_same(made.back(), then_[d].second, sizes[d]);
    }
    return made;
  }

  void require_same(const RunData& now, Fingerprint then, std::int64_t size) const {
    const auto told = [](std::int64_t samples, Fingerprint known) {
      return fmt::format("{} samples with fingerprint {}", samples, to_string(known));
    };
    saved_.require_same(
        fmt::format("the dataset {}", now.name), told(size, then), told(now.samples, *now.fingerprint),
        now.samples > size    ? ", or, of a Loader, let its mixture be grown where it has more behind these"
        : now.samples == size ? ", or say by known_as() that these are the same samples"
                              : "");
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
    RunPlan plan = by(places(names_, names_), place_of(state_).way.value().plan, names_.size(), 1);
    std::vector<double>& tokens = plan.tokens_per_sample;
    for (std::size_t d = then_.size(); d < names_.size() && !tokens.empty(); ++d) {
      const auto whole = std::ranges::find(names_, names_[d].substr(0, names_[d].find('@')));
      if (!run.plan().tokens_per_sample.empty()) {
        tokens[d] = run.plan().tokens_per_sample[d];
      } else if (whole != names_.end() && *whole != names_[d]) {  // a part of what has grown
        tokens[d] = tokens[static_cast<std::size_t>(whole - names_.begin())];
      } else {
        saved_.fail(
            ErrorCode::mismatch,
            fmt::format("its plan counts tokens, and there is no number of them of {}: give a plan of "
                        "tokens_per_sample alone, or a whole one",
                        names_[d]));
      }
    }
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
  const Run& run_;
  const Names& own_;
  Names names_;  // by number
  std::vector<std::size_t> absent_ = {};
};

// Nothing where the run has the numbers of the state, or where datasets have no names.
std::optional<Renumbering::Made> renumbered(const SavedState& saved, const Run& run, const Names& own,
                                            Split split) {
  const JsonObject state = saved.object();
  const RunOrder& order = *RunAccess::order(run);
  if (order.names.empty() || !state.has("mixture") || !state.object("mixture").has("datasets"))
    return std::nullopt;
  const auto then = datasets_in(state.object("mixture"));
  using Known = std::pair<std::string, Fingerprint>;
  const bool are_same = std::ranges::equal(then, order.names, {}, &Known::first) &&
                        std::ranges::equal(then, order.known, {}, &Known::second);
  if (order.absent.empty() && are_same) return std::nullopt;
  try {
    return Matching(saved, run, own, split).make();
  } catch (const Json::exception& error) {
    saved.fail(fmt::format("it cannot be ({})", error.what()));
  }
}

}  // namespace

Renumbering::Renumbering(const SavedState& saved, const Run& run, const Names& own, Split split)
    : saved_(saved), run_(run), made_(renumbered(saved, run, own, split)) {
  if (made_) state_.emplace(saved, std::move(made_->state));
}

}  // namespace rota::internal
