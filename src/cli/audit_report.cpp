// Reports of audits: as text, and against one another.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/audit.hpp"
#include "cli/shown_text.hpp"

namespace rota::cli {
namespace {

std::string phase_table(const AuditReport& report) {
  std::vector<std::vector<std::string>> table{{"phase", "ranks x workers", "batch", "tail", "from epoch",
                                               "sample", "step", "steps", "rolled back", "samples"}};
  for (const PhaseReport& phase : report.phases) {
    const trace::TraceStart& start = phase.start;
    table.push_back({std::to_string(start.phase), fmt::format("{} x {}", start.world.size, start.workers),
                     grouped(start.batch), start.is_stream() ? "-" : std::string(to_string(start.tail)),
                     grouped(start.from.epoch), start.is_stream() ? "-" : grouped(start.from.consumed),
                     grouped(start.from.step), grouped(phase.steps),
                     phase.rolled_back == 0 ? "-" : grouped(phase.rolled_back), grouped(phase.samples)});
  }
  return table_text(table);
}

// What the run has of its epochs.
std::string progress(const AuditReport& report) {
  const trace::TraceStart& start = report.phases.front().start;
  if (start.is_stream()) return counted(report.end.epoch, "complete epoch");
  if (start.is_mixture()) return counted(std::ssize(report.datasets), "dataset");
  return fmt::format("{} of {} samples", counted(report.end.epoch, "complete epoch"),
                     grouped(start.samples.front()));
}

std::string extras(const AuditReport& report) {
  std::string text;
  for (std::size_t d = 0; d < report.datasets.size(); ++d) {
    const DatasetReport& dataset = report.datasets[d];
    text += fmt::format("dataset {}: {} of {} samples, and {} of the next\n", d,
                        counted(dataset.epochs, "complete epoch"), grouped(dataset.samples),
                        grouped(dataset.rest));
  }
  if (report.datasets.empty() && report.end.consumed > 0) {
    text += fmt::format("epoch {} is in progress: {} of {} samples\n", report.end.epoch,
                        grouped(report.end.consumed), grouped(report.phases.front().start.samples.front()));
  }
  if (report.skipped > 0)
    text += fmt::format("{} skipped\n", counted(report.skipped, "sample was", "samples were"));
  if (report.padded > 0) text += fmt::format("{} of padding\n", counted(report.padded, "slot"));
  if (report.dropped > 0) {
    text += fmt::format("{} dropped at the ends of epochs\n",
                        counted(report.dropped, "sample was", "samples were"));
  }
  return text;
}

// What the verdict rests on that the run said of itself.
std::string reservation(const trace::TraceStart& start, bool knows_samples) {
  if (knows_samples) return "";
  return start.is_stream()
             ? "what shards hold is not known: --samples or --same-as would find samples missing at "
               "their ends\n"
             : "how many samples there are is what the trace says: --samples holds it against what "
               "you know\n";
}

// Slices are held against equal ones but where ranks read whole shards.
std::string verdict(const AuditReport& report) {
  if (report.phases.front().start.is_stream())
    return "passed: each sample of a shard exactly once per epoch and in order, ranks in lockstep\n";
  const bool are_equal = std::ranges::none_of(
      report.phases, [](const PhaseReport& phase) { return phase.start.split == Split::by_shard; });
  return fmt::format(
      "passed: each sample exactly once per epoch, ranks in lockstep, {}one content per sample\n",
      are_equal ? "equal slices, " : "");
}

void compare_batches(AuditReport& report, const AuditReport& other, const std::string& other_name) {
  const auto& ours = report.batches;
  const auto& theirs = other.batches;
  const auto [mine, yours] = std::ranges::mismatch(ours, theirs);
  if (mine == ours.end() && yours == theirs.end()) return;

  Problem problem{.kind = ProblemKind::difference, .text = {}};
  if (mine == ours.end() || yours == theirs.end()) {
    problem.text = fmt::format("{} global batches, where {} has {}; they are the same up to there",
                               ours.size(), other_name, theirs.size());
  } else {
    problem.where = fmt::format("epoch {}, sample {}, step {}", mine->start.epoch, mine->start.consumed,
                                mine->start.step);
    const char* what = mine->start != yours->start || mine->n != yours->n ? "another place or size"
                       : mine->ids != yours->ids                          ? "other samples"
                       : mine->kinds != yours->kinds                      ? "another mask"
                                                                          : "other bytes";
    problem.text = fmt::format("global batch {} has {} than in {}", mine - ours.begin(), what, other_name);
  }
  report.problems.push_back(std::move(problem));
}

void compare_shards(AuditReport& report, const AuditReport& other, const std::string& other_name) {
  const auto [mine, yours] = std::ranges::mismatch(report.shards, other.shards);
  if (mine == report.shards.end() && yours == other.shards.end()) return;
  const bool is_mine =
      yours == other.shards.end() || (mine != report.shards.end() && mine->first <= yours->first);
  const auto [epoch, shard] = is_mine ? mine->first : yours->first;
  report.problems.push_back(
      {.kind = ProblemKind::difference,
       .text = fmt::format("epoch {}, shard {}: other samples than in {}, or in another "
                           "order, or with other bytes",
                           epoch, shard, other_name)});
}

}  // namespace

std::string to_string(const Problem& problem) {
  constexpr std::array<std::string_view, 16> kKinds{
      "format",   "files",   "start", "lockstep", "slices",  "owner", "size",       "gap",
      "repeated", "missing", "range", "padding",  "content", "order", "unfinished", "difference"};
  static_assert(static_cast<std::size_t>(ProblemKind::difference) + 1 == kKinds.size());
  std::string where;
  if (problem.phase >= 0) where += fmt::format(", phase {}", problem.phase);
  if (problem.rank >= 0) where += fmt::format(", rank {}", problem.rank);
  if (!problem.where.empty()) where += ", " + problem.where;
  if (!where.empty()) where = where.substr(2) + ": ";
  const auto more = problem.count > 1 ? fmt::format(" (and {} more like it)", problem.count - 1) : "";
  return fmt::format("{}: {}{}{}", kKinds[static_cast<std::size_t>(problem.kind)], where, problem.text, more);
}

void Problems::add(Problem problem) {
  const auto same = std::ranges::find_if(problems_, [&](const Problem& other) {
    return other.kind == problem.kind && other.phase == problem.phase && other.rank == problem.rank;
  });
  if (same == problems_.end()) {
    problems_.push_back(std::move(problem));
  } else {
    same->count += problem.count;
  }
}

std::string problem_text(const std::vector<Problem>& problems, std::size_t max_problems) {
  std::string text;
  const std::size_t shown = std::min(problems.size(), max_problems);
  for (std::size_t i = 0; i < shown; ++i) text += "  " + to_string(problems[i]) + "\n";
  if (shown < problems.size()) text += fmt::format("  ... and {} more\n", problems.size() - shown);
  return text;
}

std::string audit_text(const AuditReport& report, const std::filesystem::path& dir, bool knows_samples,
                       std::size_t max_problems) {
  std::string text = dir.string() + ": ";
  const bool is_audited = !report.phases.empty();
  if (is_audited) {
    std::int64_t steps = 0;
    for (const PhaseReport& phase : report.phases) steps += phase.steps;
    text += fmt::format("{}, {}, {} delivered\n\n{}\n{}", progress(report),
                        counted(steps, "global batch", "global batches"), counted(report.samples, "sample"),
                        phase_table(report), extras(report));
  } else {
    text += "not audited further\n";
  }
  if (!report.passed()) {
    text += fmt::format("FAILED: {}\n", counted(std::ssize(report.problems), "problem"));
    return text + problem_text(report.problems, max_problems);
  }
  return text + reservation(report.phases.front().start, knows_samples) + verdict(report);
}

void compare(AuditReport& report, const AuditReport& other, const std::string& other_name) {
  for (Problem problem : other.problems) {
    problem.text += fmt::format(" (in {})", other_name);
    report.problems.push_back(std::move(problem));
  }
  if (report.phases.empty() || other.phases.empty())
    return;  // not audited: nothing is known of what is in it
  compare_batches(report, other, other_name);
  compare_shards(report, other, other_name);
}

}  // namespace rota::cli
