#include "cli/audit_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text_table.hpp"

namespace rota::tracing {
namespace {

std::string counted(std::int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", grouped(count), count == 1 ? one : many);
}

std::string phase_table(const AuditReport& report) {
  TextTable table({"phase", "ranks x workers", "batch", "tail", "from epoch", "sample", "steps",
                   "rolled back", "samples"});
  for (const PhaseReport& phase : report.phases) {
    const TraceStart& start = phase.start;
    table.add({std::to_string(start.phase), fmt::format("{} x {}", start.world.size, start.workers),
               grouped(start.batch), std::string(to_string(start.tail)), grouped(start.resumed_from.epoch),
               grouped(start.resumed_from.consumed), grouped(phase.steps),
               phase.rolled_back == 0 ? "-" : grouped(phase.rolled_back), grouped(phase.samples)});
  }
  return table.text();
}

std::string extras(const AuditReport& report, std::int64_t samples) {
  std::string text;
  if (report.end.consumed > 0) {
    text += fmt::format("epoch {} is in progress: {} of {} samples\n", report.end.epoch,
                        grouped(report.end.consumed), grouped(samples));
  }
  if (report.skipped > 0)
    text += fmt::format("{} skipped\n", counted(report.skipped, "sample was", "samples were"));
  if (report.padded > 0) text += fmt::format("{} of padding\n", counted(report.padded, "slot", "slots"));
  if (report.dropped > 0) {
    text += fmt::format("{} dropped at the ends of epochs\n",
                        counted(report.dropped, "sample was", "samples were"));
  }
  return text;
}

}  // namespace

std::string problem_text(const std::vector<Problem>& problems, std::size_t max_problems) {
  std::string text;
  const std::size_t shown = std::min(problems.size(), max_problems);
  for (std::size_t i = 0; i < shown; ++i) text += "  " + to_string(problems[i]) + "\n";
  if (shown < problems.size()) text += fmt::format("  ... and {} more\n", problems.size() - shown);
  return text;
}

std::string audit_text(const AuditReport& report, const std::filesystem::path& dir, std::int64_t samples,
                       std::size_t max_problems) {
  std::string text = dir.string() + ": ";
  if (report.phases.empty()) {
    text += "not audited further\n";
  } else {
    text += fmt::format(
        "{} of {} samples, {}, {} delivered\n\n{}\n",
        counted(report.end.epoch, "complete epoch", "complete epochs"), grouped(samples),
        counted(static_cast<std::int64_t>(report.batches.size()), "global batch", "global batches"),
        counted(report.samples, "sample", "samples"), phase_table(report));
  }
  text += extras(report, samples);
  if (report.passed()) {
    return text +
           "passed: each sample exactly once per epoch, ranks in lockstep, equal slices, one content per "
           "sample\n";
  }
  text += fmt::format("FAILED: {}\n",
                      counted(static_cast<std::int64_t>(report.problems.size()), "problem", "problems"));
  return text + problem_text(report.problems, max_problems);
}

}  // namespace rota::tracing
