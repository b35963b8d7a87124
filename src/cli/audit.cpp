#include "cli/audit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/auditor.hpp"
#include "cli/steps.hpp"
#include "cli/trace_reader.hpp"
#include "rota/error.hpp"

namespace rota::tracing {
namespace {

constexpr std::size_t kNamedRanks = 8;

struct RankFile {
  std::filesystem::path path;
  TraceStart start;
};

// The files of a phase by rank.
using Phase = std::map<int, RankFile>;
using Phases = std::map<std::int64_t, Phase>;

// Sorts the files of `dir` into phases. A file without a whole first record holds nothing.
Phases find_phases(const std::filesystem::path& dir, Problems& problems) {
  Phases phases;
  for (const auto& path : trace_files(dir)) {
    const TraceFile file(path);
    if (!file.start()) {
      if (!file.damage().empty()) problems.add({.kind = ProblemKind::format, .text = file.damage()});
      continue;
    }
    const TraceStart& start = *file.start();
    const auto [at, is_new] = phases[start.phase].try_emplace(start.world.rank, RankFile{path, start});
    if (is_new) continue;
    problems.add({.kind = ProblemKind::files,
                  .phase = start.phase,
                  .rank = start.world.rank,
                  .text = fmt::format("two trace files: {} and {}", at->second.path.filename().string(),
                                      path.filename().string())});
  }
  return phases;
}

// Where the batches of each phase stop to count: the lowest place from which a later phase resumed.
std::map<std::int64_t, std::optional<Place>> find_limits(const Phases& phases) {
  std::map<std::int64_t, std::optional<Place>> limits;
  std::optional<Place> limit;
  std::for_each(phases.rbegin(), phases.rend(), [&](const Phases::value_type& phase) {
    limits[phase.first] = limit;
    const Place resumed = phase.second.begin()->second.start.resumed_from;
    limit = limit ? std::min(*limit, resumed) : resumed;
  });
  return limits;
}

bool same_phase(const TraceStart& a, const TraceStart& b) {
  return a.world.size == b.world.size && a.batch == b.batch && a.tail == b.tail && a.split == b.split &&
         a.samples == b.samples && a.resumed_from == b.resumed_from;
}

void check_starts(const Phase& phase, const AuditOptions& options, Problems& problems) {
  const TraceStart& first = phase.begin()->second.start;
  if (first.samples != options.samples) {
    problems.add({.kind = ProblemKind::start,
                  .phase = first.phase,
                  .text = fmt::format("a dataset of {} samples, not {}", first.samples, options.samples)});
  }
  for (const auto& [rank, file] : phase) {
    if (same_phase(first, file.start)) continue;
    problems.add({.kind = ProblemKind::start,
                  .phase = first.phase,
                  .rank = rank,
                  .text = "its world, batch, tail, split, samples or start is not that of the other ranks"});
  }
}

void check_ranks(const Phase& phase, Problems& problems) {
  const TraceStart& start = phase.begin()->second.start;
  const std::int64_t missing = start.world.size - static_cast<std::int64_t>(phase.size());
  if (missing <= 0) return;
  std::vector<int> ranks;
  for (int rank = 0; rank < start.world.size && ranks.size() < kNamedRanks; ++rank) {
    if (!phase.contains(rank)) ranks.push_back(rank);
  }
  const bool is_all = missing == static_cast<std::int64_t>(ranks.size());
  problems.add({.kind = ProblemKind::files,
                .phase = start.phase,
                .text = fmt::format("no trace file for {} of {} ranks: {}{}", missing, start.world.size,
                                    fmt::join(ranks, ", "), is_all ? "" : ", ...")});
}

void check_batch(const Phases& phases, const AuditOptions& options, Problems& problems) {
  if (!options.batch) return;
  std::vector<std::int64_t> sizes;
  for (const auto& [number, phase] : phases) sizes.push_back(phase.begin()->second.start.batch);
  if (std::ranges::find(sizes, *options.batch) != sizes.end()) return;
  problems.add({.kind = ProblemKind::start,
                .text = fmt::format("no phase has a global batch of {}; there is {}", *options.batch,
                                    fmt::join(sizes, ", "))});
}

void audit_phase(Auditor& auditor, const Phase& phase, std::optional<Place> limit, bool may_run,
                 Problems& problems) {
  const TraceStart& start = phase.begin()->second.start;
  // A phase killed at once, none of whose batches count, need not have all its files yet.
  const bool counts = !limit || start.resumed_from < *limit;
  if (counts && !may_run) check_ranks(phase, problems);
  // Nor is any batch whole while a rank has not begun to write.
  if (may_run && static_cast<int>(phase.size()) < start.world.size) limit = start.resumed_from;

  std::vector<std::filesystem::path> files;
  for (const auto& [rank, file] : phase) files.push_back(file.path);
  auditor.begin_phase(start, limit, may_run);
  PhaseSteps steps(files, problems);
  for (Step step; steps.next(step);) auditor.step(step);
  auditor.end_phase(steps.ends());
}

}  // namespace

AuditReport audit(const std::filesystem::path& dir, const AuditOptions& options) {
  Problems problems;
  const Phases phases = find_phases(dir, problems);
  if (phases.empty()) {
    auto found = problems.take();
    throw Error(ErrorCode::not_found, fmt::format("audit {}: there is no trace in it{}", dir.string(),
                                                  found.empty() ? "" : "; " + to_string(found.front())));
  }
  for (const auto& [number, phase] : phases) check_starts(phase, options, problems);
  check_batch(phases, options, problems);
  AuditReport report;
  report.problems = problems.take();
  const bool is_other = std::ranges::any_of(
      report.problems, [](const Problem& problem) { return problem.kind == ProblemKind::start; });
  if (is_other) return report;  // nothing can be said of the samples of another dataset or run

  for (Problem& problem : report.problems) problems.add(std::move(problem));
  Auditor auditor(options, problems);
  const auto limits = find_limits(phases);
  for (const auto& [number, phase] : phases) {
    const bool may_run = options.running && number == phases.rbegin()->first;
    audit_phase(auditor, phase, limits.at(number), may_run, problems);
  }
  report = auditor.finish();
  report.problems = problems.take();
  return report;
}

void compare(AuditReport& report, const AuditReport& other, const std::filesystem::path& other_dir) {
  const auto& ours = report.batches;
  const auto& theirs = other.batches;
  const auto [mine, yours] = std::ranges::mismatch(ours, theirs);
  if (mine == ours.end() && yours == theirs.end()) return;

  Problem problem;
  problem.kind = ProblemKind::difference;
  if (mine == ours.end() || yours == theirs.end()) {
    problem.text = fmt::format("{} global batches, where {} has {}; they are the same up to there",
                               ours.size(), other_dir.string(), theirs.size());
  } else {
    problem.place = mine->place;
    const char* what = mine->place != yours->place || mine->n != yours->n ? "another place or size"
                       : mine->ids != yours->ids                          ? "other samples"
                       : mine->marks != yours->marks                      ? "another mask"
                                                                          : "other bytes";
    problem.text =
        fmt::format("global batch {} has {} than in {}", mine - ours.begin(), what, other_dir.string());
  }
  report.problems.push_back(std::move(problem));
}

}  // namespace rota::tracing
