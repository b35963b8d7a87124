#include "rota/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/state_text.hpp"
#include "core/text.hpp"
#include "order/weighted_turns.hpp"
#include "rota/types.hpp"

namespace rota {
namespace {

using internal::Json;
using internal::JsonObject;
using internal::kStageUnits;

constexpr internal::OptionCheck kPlanCheck("plan a run");
constexpr std::int64_t kMostStages = 256;
constexpr std::int64_t kMostRanges = 4096;
constexpr std::int64_t kMostLeftOut = 65'536;
constexpr double kMostTokens = 1e12;  // of a sample
constexpr std::string_view kRule = "tokens_per_sample of each dataset";

std::string_view unit_of(const Stage& stage) { return kStageUnits[static_cast<std::size_t>(stage.unit)]; }

void check_weights(const std::string& name, const std::vector<double>& weights, std::size_t datasets) {
  if (weights.empty()) return;
  if (weights.size() != datasets) {
    kPlanCheck.refuse(
        name, fmt::format("of {}", weights.size()),
        datasets == 0 ? "left out: this run mixes no datasets" : fmt::format("of {} datasets", datasets));
  }
  try {
    internal::require_weights(weights);
  } catch (const Error& error) {
    throw internal::failure(ErrorCode::invalid_argument, "plan a run: {}: {}", name, error.what());
  }
}

void check_ramp(const Stage& stage, const Stage* next, const std::string& name) {
  if (stage.toward.empty()) return;
  if (stage.weights.empty()) kPlanCheck.refuse(name + ".toward", "set", "of a stage with weights");
  if (next == nullptr || next->unit != stage.unit)
    kPlanCheck.refuse(name + ".toward", "set",
                      fmt::format("of a stage behind which one begins by {}, too", unit_of(stage)));
}

}  // namespace

void RunPlan::validate(std::size_t datasets) const {
  kPlanCheck.in_range("the number of stages", std::ssize(stages), 0, kMostStages);
  kPlanCheck.in_range("the number of skipped ranges", std::ssize(skip), 0, kMostRanges);
  for (const double tokens : tokens_per_sample) {
    if (!(tokens >= 0.001 && tokens <= kMostTokens))
      kPlanCheck.refuse("tokens_per_sample", fmt::format("{}", tokens), "0.001 to 10^12");
  }
  const std::size_t least = std::max<std::size_t>(datasets, 1);
  if (!tokens_per_sample.empty() && tokens_per_sample.size() != least)
    kPlanCheck.refuse("tokens_per_sample", fmt::format("of {}", tokens_per_sample.size()),
                      fmt::format("of {} dataset{}", least, least == 1 ? "" : "s"));
  if (are_weights_of_tokens && tokens_per_sample.empty())
    kPlanCheck.refuse("by", "tokens", fmt::format("left out, or there be {}", kRule));
  std::int64_t left_out = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    const std::string name = fmt::format("stages[{}]", s);
    kPlanCheck.in_range("the number of samples in leave_out", left_out += std::ssize(stage.leave_out), 0,
                        kMostLeftOut, "of others make a dataset by without(), for a run of its own");
    const auto falls = std::ranges::adjacent_find(stage.leave_out, std::greater_equal<>());
    if (falls != stage.leave_out.end() || (!stage.leave_out.empty() && stage.leave_out[0].value < 0))
      kPlanCheck.refuse(name + ".leave_out", "not so", "of ids, 0 or more, ascending, none twice");
    kPlanCheck.one_of(name + ".unit", stage.unit, kStageUnits);
    kPlanCheck.in_range(fmt::format("{}.{}", name, unit_of(stage)), stage.begin, 0, kMaxCount);
    kPlanCheck.in_range(name + ".global_batch_size", stage.global_batch_size, 0, kMaxBatchSize,
                        "0 = as before");
    if (stage.unit == Stage::Unit::tokens && tokens_per_sample.empty())
      kPlanCheck.refuse(name, "of tokens", fmt::format("of samples or steps, or there be {}", kRule));
    check_weights(name + ".weights", stage.weights, datasets);
    check_weights(name + ".toward", stage.toward, datasets);
    check_ramp(stage, s + 1 < stages.size() ? &stages[s + 1] : nullptr, name);
    const auto same_unit = std::find_if(stages.rend() - static_cast<std::ptrdiff_t>(s), stages.rend(),
                                        [&](const Stage& before) { return before.unit == stage.unit; });
    if (same_unit != stages.rend() && same_unit->begin >= stage.begin)
      kPlanCheck.refuse(fmt::format("{}.{}", name, unit_of(stage)), std::to_string(stage.begin),
                        fmt::format("more than {}, with which an earlier one begins", same_unit->begin));
  }
  for (std::size_t r = 0; r < skip.size(); ++r) {
    const std::string name = fmt::format("skip[{}]", r);
    kPlanCheck.in_range(name + " begins, which", skip[r].begin, r == 0 ? 0 : skip[r - 1].end + 1, kMaxCount,
                        "behind the range before it");
    kPlanCheck.in_range(name + " ends, which", skip[r].end, skip[r].begin + 1, kMaxCount, "behind its begin");
  }
}

// ---- as JSON ----

namespace {

constexpr std::string_view kTask = "read a plan";

[[noreturn]] void refuse(std::string_view member, std::string_view why) {
  throw internal::failure(ErrorCode::invalid_argument, "{}: {}{}{}", kTask, member, member.empty() ? "" : " ",
                          why);
}

void know_keys(const Json& object, const std::string& where, std::span<const std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end())
      refuse(fmt::format("{}\"{}\"", where, key.substr(0, 100)),
             fmt::format("is not known; there are {}", fmt::join(known, ", ")));
  }
}

// "250B" is 250 x 10^9.
std::int64_t amount_of(const JsonObject& object, std::string_view key) {
  constexpr std::string_view kSuffixes = "KMBT";
  const Json& json = object.at(key);
  if (!json.is_string()) return object.number(key);
  std::string_view text = object.text(key);
  double scale = 1;
  if (!text.empty()) {
    const auto suffix =
        kSuffixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (suffix != std::string_view::npos) {
      scale = std::pow(1000.0, static_cast<double>(suffix + 1));
      text.remove_suffix(1);
    }
  }
  double number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const double amount = std::round(number * scale);
  const bool is_whole = std::abs(amount - number * scale) < 1e-3;
  if (error != std::errc() || end != text.data() + text.size() || !is_whole || !(amount >= 0) ||
      amount > 0x1p62)
    object.fail(key, fmt::format("is \"{}\", and no count such as \"768\", \"1.5M\" or \"250B\", up to 2^62",
                                 object.text(key).substr(0, 100)));
  return static_cast<std::int64_t>(amount);
}

// A list, or an object by names of datasets, of which those that are left out are `missing`.
std::vector<double> reals_of(const JsonObject& object, std::string_view key,
                             const std::vector<std::string>& names, double missing) {
  const Json& json = object.at(key);
  const auto number_of = [&](const Json& value) {
    if (!value.is_number()) object.fail(key, "has what is no number");
    return value.get<double>();
  };
  std::vector<double> reals;
  if (json.is_array()) {
    for (const Json& value : json) reals.push_back(number_of(value));
    return reals;
  }
  if (!json.is_object()) object.fail(key, "is no list of numbers, and no object by names of datasets");
  if (names.empty() || names.front().empty())
    object.fail(key, "is by names, and the datasets have none; give a list, or names");
  reals.assign(names.size(), missing);
  for (const auto& [name, value] : json.items()) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      object.fail(key, fmt::format("is of \"{}\", and the datasets are {}", name.substr(0, 100),
                                   fmt::join(names, ", ")));
    reals[static_cast<std::size_t>(found - names.begin())] = number_of(value);
  }
  for (const std::string& name : names) {  // "web@1000" is a part of "web", which has grown
    const std::size_t at = name.find('@');
    const bool is_part = at != std::string::npos && internal::whole_number<std::int64_t>(name.substr(at + 1));
    if (is_part && json.contains(name.substr(0, at)) && !json.contains(name))
      object.fail(key, fmt::format("is of {}, and does not name {}, which is a part of it",
                                   name.substr(0, at), name));
  }
  return reals;
}

// A list of ids, and of pairs [begin, end) of them.
std::vector<SampleId> ids_of(const JsonObject& object, std::string_view key) {
  if (object.at(key).is_string())
    object.fail(key, "is a path: give the plan as a file, which read_plan reads with it, or a list of ids");
  std::set<SampleId> ids;  // one more than there may be is refused by validate()
  for (const Json& one : object.array(key)) {
    const bool is_pair = one.is_array() && one.size() == 2;
    const std::int64_t begin = object.number_in(is_pair ? one[0] : one, key, 0, kMaxCount - 1);
    const std::int64_t end = is_pair ? object.number_in(one[1], key, begin + 1, kMaxCount) : begin + 1;
    for (std::int64_t id = begin; id < end && std::ssize(ids) <= kMostLeftOut; ++id) ids.insert({id});
  }
  return {ids.begin(), ids.end()};
}

// Neighbours are a pair.
internal::OrderedJson json_of(const std::vector<SampleId>& ids) {
  internal::OrderedJson json = internal::OrderedJson::array();
  for (std::size_t first = 0, next = 0; first < ids.size(); first = next) {
    for (next = first + 1; next < ids.size() && ids[next].value == ids[next - 1].value + 1;) ++next;
    if (next == first + 1)
      json.push_back(ids[first].value);
    else
      json.push_back({ids[first].value, ids[next - 1].value + 1});
  }
  return json;
}

Stage read_stage(const Json& json, std::size_t number, const std::vector<std::string>& names) {
  constexpr std::array<std::string_view, 7> kKeys{"steps",   "samples", "tokens",   "global_batch_size",
                                                  "weights", "toward",  "leave_out"};
  const std::string where = fmt::format("stages[{}]", number);
  const JsonObject object(json, refuse, where);
  know_keys(json, where + ".", kKeys);
  Stage stage;
  int units = 0;
  for (std::size_t unit = 0; unit < kStageUnits.size(); ++unit) {
    if (!object.has(kStageUnits[unit])) continue;
    ++units;
    stage.unit = static_cast<Stage::Unit>(unit);
    stage.begin = amount_of(object, kStageUnits[unit]);
  }
  if (units != 1)
    refuse(where, fmt::format("begins by one of steps, samples and tokens, and has {} of them", units));
  if (object.has("global_batch_size"))
    stage.global_batch_size =
        object.number_in(object.at("global_batch_size"), "global_batch_size", 1, kMaxBatchSize);
  if (object.has("weights")) stage.weights = reals_of(object, "weights", names, 0);
  if (object.has("toward")) stage.toward = reals_of(object, "toward", names, 0);
  if (object.has("leave_out")) stage.leave_out = ids_of(object, "leave_out");
  return stage;
}

}  // namespace

RunPlan parse_plan(std::string_view text, const std::vector<std::string>& names) {
  constexpr std::array<std::string_view, 4> kKeys{"stages", "skip", "tokens_per_sample", "by"};
  const Json json = internal::parse_json(text, [](std::string_view why) { refuse("", why); });
  const JsonObject object(json, refuse);
  know_keys(json, "", kKeys);
  RunPlan plan;
  if (object.has("tokens_per_sample")) {
    if (object.at("tokens_per_sample").is_number())
      plan.tokens_per_sample = {object.at("tokens_per_sample").get<double>()};
    else
      plan.tokens_per_sample = reals_of(object, "tokens_per_sample", names, -1);
  }
  if (object.has("by")) {
    const std::string& by = object.text("by");
    if (by != "samples" && by != "tokens") object.fail("by", "is neither samples nor tokens");
    plan.are_weights_of_tokens = by == "tokens";
  }
  if (object.has("stages")) {
    for (const Json& stage : object.array("stages"))
      plan.stages.push_back(read_stage(stage, plan.stages.size(), names));
  }
  if (object.has("skip")) {
    for (const Json& range : object.array("skip")) {
      if (!range.is_array() || range.size() != 2) object.fail("skip", "is no list of pairs of steps");
      plan.skip.push_back({object.number_in(range[0], "skip", 0, kMaxCount),
                           object.number_in(range[1], "skip", 0, kMaxCount)});
    }
  }
  return plan;
}

std::string to_string(const RunPlan& plan) {
  internal::OrderedJson json = internal::OrderedJson::object();
  for (const Stage& stage : plan.stages) {
    internal::OrderedJson one{{unit_of(stage), stage.begin}};
    if (stage.global_batch_size != 0) one["global_batch_size"] = stage.global_batch_size;
    if (!stage.weights.empty()) one["weights"] = stage.weights;
    if (!stage.toward.empty()) one["toward"] = stage.toward;
    if (!stage.leave_out.empty()) one["leave_out"] = json_of(stage.leave_out);
    json["stages"].push_back(std::move(one));
  }
  for (const auto& [begin, end] : plan.skip) json["skip"].push_back({begin, end});
  if (!plan.tokens_per_sample.empty()) json["tokens_per_sample"] = plan.tokens_per_sample;
  if (plan.are_weights_of_tokens) json["by"] = "tokens";
  return json.dump();
}

}  // namespace rota
