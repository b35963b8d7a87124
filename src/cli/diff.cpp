// `rota diff`: what a run would read otherwise by another plan.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"
#include "order/run_state.hpp"
#include "rota/loader.hpp"

namespace rota::cli {
namespace {

using internal::OrderedJson;
using internal::RunAccess;

struct Diff {
  std::array<std::string, 2> plans;
  std::filesystem::path file;
  std::string loader = "main";
  std::int64_t steps = 0;
  bool is_json = false;
};

// What is read of each dataset from here on.
struct WouldRead {
  std::int64_t steps = 0;  // with those that are left out
  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> tokens;
};

std::vector<std::string> names_of(const Run& run) {
  std::vector<std::string> names;
  for (const RunData& data : run.data())
    names.push_back(data.name.empty() ? fmt::format("dataset {}", names.size()) : data.name);
  return names;
}

Run planned(const Run& run, const std::string& file, const std::vector<std::string>& names) {
  Run made = run;
  const RunPlan plan = read_plan(Communicator(), file, names);
  if (!RunAccess::replan(made, plan))
    throw internal::failure(ErrorCode::mismatch, "{}: {}", file, RunAccess::other_past(made, plan));
  return made;
}

// The number of steps of a run, up to so many: found by halves, for it is none that datasets end.
std::int64_t steps_of(const Run& run, std::int64_t most) {
  std::int64_t there = run.position().step;
  if (run.at(most)) return most;
  for (std::int64_t end = most; end - there > 1;) {
    const std::int64_t middle = there + (end - there) / 2;
    (run.at(middle) ? there : end) = middle;
  }
  return run.at(there) ? there + 1 : there;
}

// Where `step` begins, or the run ends.
Run behind(const Run& run, std::int64_t step) {
  if (auto at = run.at(step)) return *at;
  std::optional<Run> last = step > run.position().step ? run.at(step - 1) : std::nullopt;
  if (!last) return run;
  last->advance();
  return *last;
}

// Samples of a dataset that are left out of ordinals [begin, end): each is one of each epoch.
std::int64_t left_out_of(const Run& run, std::size_t d, std::span<const SampleId> ids, std::int64_t begin,
                         std::int64_t end) {
  const auto& firsts = RunAccess::order(run)->firsts;
  const std::int64_t samples = firsts[d + 1] - firsts[d];
  const std::vector<SampleId> own(std::ranges::lower_bound(ids, SampleId{firsts[d]}),
                                  std::ranges::lower_bound(ids, SampleId{firsts[d + 1]}));
  const auto before = [&](std::int64_t ordinal) {
    const std::vector<std::int64_t> epochs(own.size(), ordinal / samples);
    const auto turns = RunAccess::turns_of(run, own, epochs);
    return ordinal / samples * std::ssize(own) +
           std::ranges::count_if(turns, [&](const auto& one) { return one.turn < ordinal % samples; });
  };
  return own.empty() ? 0 : before(end) - before(begin);
}

WouldRead read_by(const Run& run, std::int64_t most) {
  const Run whole = RunAccess::without_skip(run);
  const std::int64_t first = run.position().step;
  WouldRead read{.steps = steps_of(whole, most) - first,
                 .samples = std::vector<std::int64_t>(run.data().size()),
                 .tokens = {}};
  const auto add = [&](std::int64_t begin, std::int64_t end, std::int64_t times) {
    const std::vector<internal::Stretch>& stretches = RunAccess::path(whole).stretches();
    for (std::size_t s = 0; s < stretches.size(); ++s) {
      const internal::Stretch& stretch = stretches[s];
      const std::int64_t last =
          s + 1 == stretches.size() ? end : std::clamp(stretches[s + 1].begin.step, begin, end);
      if (last == begin) continue;
      const std::vector<std::int64_t> before = RunAccess::had(behind(whole, begin));
      const std::vector<std::int64_t> after = RunAccess::had(behind(whole, last));
      for (std::size_t d = 0; d < before.size(); ++d) {
        const std::int64_t gone =
            stretch.left_out ? left_out_of(run, d, *stretch.left_out, before[d], after[d]) : 0;
        read.samples[d] += times * (after[d] - before[d] - gone);
      }
      begin = last;
    }
  };
  const std::int64_t end = first + read.steps;
  add(first, end, 1);
  for (const StepRange& range : run.plan().skip) {
    const std::int64_t begin = std::clamp(range.begin, first, end);
    add(begin, std::clamp(range.end, begin, end), -1);
  }
  const std::vector<double>& means = run.plan().tokens_per_sample;
  for (std::size_t d = 0; d < means.size(); ++d)
    read.tokens.push_back(std::llround(means[d] * static_cast<double>(read.samples[d])));
  return read;
}

// The first step of which they differ; found by halves, as the past of a run differs from some step on.
std::optional<std::int64_t> first_difference(const Run& one, const Run& other, std::int64_t most) {
  const auto is_same = [&](std::int64_t step) {
    return RunAccess::path(one).is_same_until(RunAccess::path(other), {.step = step});
  };
  std::int64_t same = one.position().step;
  if (is_same(most)) return std::nullopt;
  for (std::int64_t end = most; end - same > 1;) {
    const std::int64_t middle = same + (end - same) / 2;
    (is_same(middle) ? same : end) = middle;
  }
  return same;
}

int tell(const Diff& diff) {
  const Run run = read_run(diff.file, diff.loader);
  const std::vector<std::string> names = names_of(run);
  const Run one = planned(run, diff.plans[0], names);
  const Run other = planned(run, diff.plans[1], names);
  const std::int64_t first = run.position().step;
  const std::int64_t most =
      diff.steps > 0 && diff.steps < kMaxCount - first ? first + diff.steps : kMaxCount - 1;
  const WouldRead a = read_by(one, most);
  const WouldRead b = read_by(other, most);
  const auto differs = first_difference(one, other, std::max(first + a.steps, first + b.steps));
  OrderedJson json{
      {"from_step", first}, {"steps", {a.steps, b.steps}}, {"first_difference", differs.value_or(-1)}};
  std::vector<std::vector<std::string>> table{{"", "A", "B", "B - A"}};
  const auto add = [&](const std::string& what, std::int64_t by_a, std::int64_t by_b) {
    table.push_back({what, grouped(by_a), grouped(by_b),
                     fmt::format("{}{}", by_b > by_a ? "+" : "", grouped(by_b - by_a))});
  };
  add("steps", a.steps, b.steps);
  for (std::size_t d = 0; d < names.size(); ++d) {
    json["datasets"].push_back({{"name", names[d]}, {"samples", {a.samples[d], b.samples[d]}}});
    add(fmt::format("{}: samples", shown(names[d])), a.samples[d], b.samples[d]);
    if (a.tokens.empty() || b.tokens.empty()) continue;
    json["datasets"].back()["tokens"] = {a.tokens[d], b.tokens[d]};
    add(fmt::format("{}: tokens", shown(names[d])), a.tokens[d], b.tokens[d]);
  }
  if (diff.is_json) {
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print(
        "{}\n\n{}",
        differs ? fmt::format("the same up to step {}", grouped(*differs)) : "the same batches to the end",
        table_text(table, 1));
  }
  return differs ? kProblems : 0;
}

}  // namespace

void add_diff(CLI::App& app, int& code) {
  const auto diff = std::make_shared<Diff>();
  CLI::App& command = *app.add_subcommand("diff", "Tells what a run would read otherwise by another plan.");
  command.add_option("A", diff->plans[0], "a plan, a file of JSON")->required();
  command.add_option("B", diff->plans[1], "another one")->required();
  command
      .add_option("FILE", diff->file, "of the run: a checkpoint, or a text, as of `when`; from its step on")
      ->required();
  add_number(command, "--steps", diff->steps, 1, "so many steps at the most");
  command.add_option("--loader", diff->loader, "its name in the checkpoint")->capture_default_str();
  command.add_flag("--json", diff->is_json, "one line of JSON");
  command.callback([diff, &code] { code = tell(*diff); });
}

}  // namespace rota::cli
