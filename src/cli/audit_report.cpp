// Reports of audits: as text, and against one another.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/audit.hpp"
#include "cli/output.hpp"

namespace rota::cli {
namespace {

std::string phase_table(const AuditReport& report) {
  std::vector<std::vector<std::string>> table{{"phase", "ranks x workers", "batch", "tail", "from epoch",
                                               "sample", "step", "steps", "rolled back", "samples"}};
  for (const auto& [start, steps, rolled_back, samples] : report.phases) {
    const bool is_stream = start.is_stream();
    table.push_back({std::to_string(start.phase), fmt::format("{} x {}", start.world.size, start.workers),
                     grouped(start.batch), is_stream ? "-" : std::string(to_string(start.tail)),
                     grouped(start.from.epoch), is_stream ? "-" : grouped(start.from.consumed),
                     grouped(start.from.step), grouped(steps), rolled_back == 0 ? "-" : grouped(rolled_back),
                     grouped(samples)});
  }
  return table_text(table);
}

// What the run has of its epochs, and how many samples were no usual ones.
std::pair<std::string, std::string> progress(const AuditReport& report) {
  const trace::TraceStart& start = report.phases.front().start;
  std::string text;
  for (std::size_t d = 0; d < report.datasets.size(); ++d) {
    const auto [samples, epochs, rest] = report.datasets[d];
    text += fmt::format("dataset {}: {} of {} samples, and {} of the next\n", d,
                        counted(epochs, "complete epoch"), grouped(samples), grouped(rest));
  }
  const auto note = [&](std::int64_t n, const std::string& what) { text += n > 0 ? what + "\n" : ""; };
  const auto were = [](std::int64_t n) { return counted(n, "sample was", "samples were"); };
  const auto samples = grouped(start.epoch_samples());
  if (!start.is_mixture())
    note(report.end.consumed, fmt::format("epoch {} is in progress: {} of {} samples", report.end.epoch,
                                          grouped(report.end.consumed), samples));
  note(report.skipped, were(report.skipped) + " skipped");
  note(report.padded, counted(report.padded, "slot") + " of padding");
  note(report.dropped, were(report.dropped) + " dropped at the ends of epochs");
  if (start.is_mixture()) return {counted(std::ssize(report.datasets), "dataset"), text};
  const std::string epochs = counted(report.end.epoch, "complete epoch");
  return {start.is_stream() ? epochs : fmt::format("{} of {} samples", epochs, samples), text};
}

// What was proven, and first what that rests on that the run said of itself.
std::string verdict(const AuditReport& report, bool knows_samples) {
  if (report.phases.front().start.is_stream()) {
    return std::string(knows_samples ? ""
                                     : "what shards hold is not known: --samples or --same-as would find "
                                       "samples missing at their ends\n") +
           "passed: each sample of a shard exactly once per epoch and in order, ranks in lockstep\n";
  }
  const auto is_uneven = [](const PhaseReport& phase) { return phase.start.split == Split::by_shard; };
  return fmt::format(
      "{}passed: each sample exactly once per epoch, ranks in lockstep, {}one content per sample\n",
      knows_samples ? ""
                    : "how many samples there are is what the trace says: --samples holds it "
                      "against what you know\n",
      std::ranges::any_of(report.phases, is_uneven) ? "" : "equal slices, ");
}

}  // namespace

std::string to_string(const Problem& problem) {
  constexpr std::array<std::string_view, 10> kKinds{
      "format", "files", "start", "lockstep", "gap", "batch", "repeated", "missing", "content", "difference"};
  static_assert(static_cast<std::size_t>(ProblemKind::difference) + 1 == kKinds.size());
  std::string where = problem.phase < 0 ? "" : fmt::format(" phase {},", problem.phase);
  if (problem.rank >= 0) where += fmt::format(" rank {},", problem.rank);
  if (!problem.where.empty()) where += fmt::format(" {},", problem.where);
  if (!where.empty()) where.back() = ':';
  const auto more = problem.count > 1 ? fmt::format(" (and {} more like it)", problem.count - 1) : "";
  return fmt::format("{}:{} {}{}", kKinds[static_cast<std::size_t>(problem.kind)], where, problem.text, more);
}

std::string text_of(const Position& position, bool is_stream) {
  const auto sample = is_stream ? "" : fmt::format(", sample {}", position.consumed);
  return fmt::format("epoch {}{}, step {}", position.epoch, sample, position.step);
}

void add(std::vector<Problem>& problems, Problem problem) {
  const auto key = [](const Problem& p) { return std::tuple(p.kind, p.phase, p.rank); };
  const auto same = std::ranges::find(problems, key(problem), key);
  if (same == problems.end()) return problems.push_back(std::move(problem));
  same->count += problem.count;
}

std::string problem_text(const std::vector<Problem>& problems) {
  constexpr std::size_t kMost = 20;
  std::string text;
  const std::size_t shown = std::min(problems.size(), kMost);
  for (std::size_t i = 0; i < shown; ++i) text += "  " + to_string(problems[i]) + "\n";
  if (shown < problems.size()) text += fmt::format("  ... and {} more\n", problems.size() - shown);
  return text;
}

std::string audit_text(const AuditReport& report, const std::filesystem::path& dir, bool knows_samples) {
  std::string text = dir.string() + ": not audited further\n";
  if (!report.phases.empty()) {
    std::int64_t steps = 0;
    for (const PhaseReport& phase : report.phases) steps += phase.steps;
    const auto [epochs, extras] = progress(report);
    text = fmt::format("{}: {}, {}, {} delivered\n\n{}\n{}", dir.string(), epochs,
                       counted(steps, "global batch", "global batches"), counted(report.samples, "sample"),
                       phase_table(report), extras);
  }
  if (report.passed()) return text + verdict(report, knows_samples);
  return text + fmt::format("FAILED: {}\n", counted(std::ssize(report.problems), "problem")) +
         problem_text(report.problems);
}

void compare(AuditReport& report, const AuditReport& other, const std::string& other_name) {
  for (Problem problem : other.problems) {
    problem.text += fmt::format(" (in {})", other_name);
    report.problems.push_back(std::move(problem));
  }
  if (report.phases.empty() || other.phases.empty()) return;  // nothing is known of what is in it
  const auto [mine, yours] = std::ranges::mismatch(report.batches, other.batches);
  if (mine == report.batches.end() && yours == other.batches.end()) return;
  const bool is_stream = report.phases.front().start.is_stream();
  Problem problem{.kind = ProblemKind::difference, .text = {}};
  if (mine == report.batches.end() || yours == other.batches.end()) {
    problem.text = fmt::format("{} {}, where {} has {}; they are the same up to there", report.batches.size(),
                               is_stream ? "shards" : "global batches", other_name, other.batches.size());
  } else {
    const auto& [at, content] = *mine;
    problem.where = is_stream ? fmt::format("epoch {}, shard {}", at.epoch, at.consumed) : text_of(at, false);
    problem.text = fmt::format("another {} than in {}",
                               at == yours->first ? "size, sample, mask or digest" : "position", other_name);
  }
  report.problems.push_back(std::move(problem));
}

}  // namespace rota::cli
