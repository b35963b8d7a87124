#include "cli/audit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "cli/auditor.hpp"
#include "rota/error.hpp"
#include "trace/trace_file.hpp"
#include "values/scarce.hpp"

namespace rota::cli {
namespace {

using trace::TraceStart;

constexpr std::size_t kNamedRanks = 8;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

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
  for (const auto& path : trace::trace_files(dir)) {
    const trace::TraceFile file(path);
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

// Where the steps of each phase stop to count: the lowest from which a later phase resumed.
std::map<std::int64_t, std::int64_t> find_limits(const Phases& phases) {
  std::map<std::int64_t, std::int64_t> limits;
  std::int64_t limit = kNoLimit;
  std::for_each(phases.rbegin(), phases.rend(), [&](const Phases::value_type& phase) {
    limits[phase.first] = limit;
    limit = std::min(limit, phase.second.begin()->second.start.from.step);
  });
  return limits;
}

void check_samples(const TraceStart& start, const AuditOptions& options, Problems& problems) {
  if (start.is_stream() || options.samples.empty() || start.samples == options.samples) return;
  problems.add({.kind = ProblemKind::start,
                .phase = start.phase,
                .text = fmt::format("a dataset of {} samples, not {}", fmt::join(start.samples, " + "),
                                    fmt::join(options.samples, " + "))});
}

void check_starts(const Phase& phase, const TraceStart& run, Problems& problems) {
  const TraceStart& first = phase.begin()->second.start;
  if (!first.is_same_run(run)) {
    problems.add({.kind = ProblemKind::start,
                  .phase = first.phase,
                  .text = "its samples, shards or fingerprint are not those that the run began with"});
  }
  for (const auto& [rank, file] : phase) {
    if (first.is_same_phase(file.start)) continue;
    problems.add({.kind = ProblemKind::start,
                  .phase = first.phase,
                  .rank = rank,
                  .text = "its world, batch, tail, split, dataset or start is not that of the other ranks"});
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
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  problems.add({.kind = ProblemKind::start,
                .text = fmt::format("no phase has a global batch of {}; there is {}", *options.batch,
                                    fmt::join(sizes, ", "))});
}

void audit_phase(Auditor& auditor, const Phase& phase, std::int64_t limit, bool may_run, Problems& problems) {
  const TraceStart& start = phase.begin()->second.start;
  // A phase killed at once, none of whose batches count, need not have all its files yet.
  if (start.from.step < limit && !may_run) check_ranks(phase, problems);
  // Nor is any batch whole while a rank has not begun to write.
  if (may_run && static_cast<int>(phase.size()) < start.world.size) limit = start.from.step;

  std::vector<std::filesystem::path> files;
  for (const auto& [rank, file] : phase) files.push_back(file.path);
  auditor.audit_phase(start, files, limit, may_run);
}

std::unique_ptr<Auditor> make_auditor(const std::filesystem::path& dir, const AuditOptions& options,
                                      const TraceStart& first, Problems& problems) {
  if (first.is_mixture() && (options.epochs || options.complete)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("audit {}: it is of {} datasets, each of which has epochs of its own; leave out "
                            "--epochs and --complete",
                            dir.string(), first.samples.size()));
  }
  if (first.is_stream() && options.samples.size() > 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("audit {}: it is of a stream, whose epochs have one number of samples, not {}; "
                            "give --samples one",
                            dir.string(), options.samples.size()));
  }
  const auto make = first.is_stream() ? make_stream_auditor : make_sample_auditor;
  return internal::with_memory([&] { return make(options, first, problems); },
                               [&] {
                                 return fmt::format("audit {}: {} samples, at 8 bytes each", dir.string(),
                                                    fmt::join(first.samples, " + "));
                               });
}

AuditReport audit_phases(const std::filesystem::path& dir, const Phases& phases, const AuditOptions& options,
                         Problems& problems) {
  const TraceStart& first = phases.begin()->second.begin()->second.start;
  const auto auditor = make_auditor(dir, options, first, problems);
  const auto limits = find_limits(phases);
  for (const auto& [number, phase] : phases) {
    const bool may_run = options.running && number == phases.rbegin()->first;
    audit_phase(*auditor, phase, limits.at(number), may_run, problems);
  }
  return auditor->finish();
}

}  // namespace

AuditReport audit(const std::filesystem::path& dir, const AuditOptions& options) {
  Problems problems;
  const Phases phases = find_phases(dir, problems);
  if (phases.empty()) {
    const auto& found = problems.all();
    throw Error(ErrorCode::not_found, fmt::format("audit {}: there is no trace in it{}", dir.string(),
                                                  found.empty() ? "" : "; " + to_string(found.front())));
  }
  const TraceStart& first = phases.begin()->second.begin()->second.start;
  check_samples(first, options, problems);
  for (const auto& [number, phase] : phases) check_starts(phase, first, problems);
  check_batch(phases, options, problems);
  AuditReport report;  // nothing can be said of the samples of another dataset or run
  const bool is_other = std::ranges::any_of(
      problems.all(), [](const Problem& problem) { return problem.kind == ProblemKind::start; });
  if (!is_other) report = audit_phases(dir, phases, options, problems);
  report.problems = problems.take();
  return report;
}

}  // namespace rota::cli
