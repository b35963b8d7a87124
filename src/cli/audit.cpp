#include "cli/audit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/scarce.hpp"
#include "rota/error.hpp"
#include "trace/facts.hpp"

namespace rota::cli {
namespace {

using trace::Phases;
using trace::Sighting;
using trace::TraceStart;
using Problems = std::vector<Problem>;

// Returns what the run began with, as most phases say.
TraceStart check_starts(const Phases& phases, const AuditOptions& options, Problems& problems) {
  std::vector<TraceStart> starts;
  for (const auto& [number, phase] : phases) starts.push_back(phase.start);
  TraceStart run = trace::most_common(starts, &TraceStart::is_same_run);
  const auto expect = [&](bool holds, std::int64_t phase, int rank, const std::string& text) {
    if (!holds) add(problems, {.kind = ProblemKind::start, .phase = phase, .rank = rank, .text = text});
  };
  expect(run.is_stream() || options.samples.empty() || run.samples == options.samples, -1, -1,
         fmt::format("a dataset of {} samples, not {}", fmt::join(run.samples, " + "),
                     fmt::join(options.samples, " + ")));
  for (const auto& [number, phase] : phases) {
    expect(phase.start.is_same_run(run), number, -1,
           "its samples, shards or fingerprint are not those of the other phases");
    for (const auto& [rank, start] : phase.starts) {
      expect(start.is_same_phase(phase.start), number, rank,
             "its world, batch, tail, split, dataset or start is not that of the other ranks");
    }
  }
  const std::int64_t batch = options.batch.value_or(run.batch);
  expect(std::ranges::count(starts, batch, &TraceStart::batch) > 0, -1, -1,
         fmt::format("no phase has a global batch of {}; the first has {}", batch, starts.front().batch));
  return run;
}

AuditReport audit_run(const std::string& dir, const Phases& phases, const AuditOptions& options,
                      const TraceStart& run) {
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::invalid_argument, fmt::format("audit {}: it is of {}", dir, why));
  };
  if (run.is_mixture() && (options.epochs || options.complete))
    refuse("a mixture, whose datasets have epochs of their own; leave out --epochs and --complete");
  if (run.is_stream() && options.samples.size() > 1)
    refuse("a stream, whose epochs have one number of samples; give --samples one");
  const auto what = [&] {
    return fmt::format("audit {}: {} samples, at 8 bytes each", dir, fmt::join(run.samples, " + "));
  };
  return internal::with_memory([&] { return audit_phases(phases, run, options); }, what);
}

// Lays the problem to the record that contradicts most others; of two, to the earlier. If all say the same,
// it stays where it was found. Names one of the others.
void blame(Problem& problem, const std::vector<Sighting>& seen, bool is_stream) {
  std::map<std::uint64_t, std::int64_t> votes;
  for (const Sighting& sighting : seen) ++votes[sighting.value];
  std::uint64_t right = seen.back().value;
  for (const auto& [value, count] : votes) right = count > votes[right] ? value : right;

  const auto is_odd = [&](const Sighting& s) { return s.value != right; };
  const auto is_found = [&](const Sighting& s) {
    return std::tie(s.phase, s.start.step, s.rank) == std::tie(problem.phase, problem.step, problem.rank);
  };
  auto blamed = std::ranges::find_if(seen, is_odd);
  if (blamed == seen.end()) blamed = std::ranges::find_if(seen, is_found);
  if (blamed == seen.end()) --blamed;
  auto other = blamed;  // the last before it that is right, or the first behind it
  for (auto s = seen.begin(); s != seen.end(); ++s) {
    if (s != blamed && !is_odd(*s) && (other == blamed || s < blamed)) other = s;
  }
  std::tie(problem.phase, problem.rank, problem.step) =
      std::tie(blamed->phase, blamed->rank, blamed->start.step);
  problem.where = text_of(blamed->start, is_stream);
  problem.text += fmt::format("; compare phase {}, rank {}, {}", other->phase, other->rank,
                              text_of(other->start, is_stream));
}

}  // namespace

AuditReport audit(const std::filesystem::path& dir, const AuditOptions& options) {
  Problems problems;
  std::vector<std::string> damage;
  const Phases phases = trace::find_phases(dir, damage);
  for (const std::string& text : damage) add(problems, {.kind = ProblemKind::format, .text = text});
  if (phases.empty()) {
    throw Error(ErrorCode::not_found, fmt::format("audit {}: there is no trace in it{}{}", dir.string(),
                                                  damage.empty() ? "" : "; ", fmt::join(damage, "; ")));
  }
  const TraceStart run = check_starts(phases, options, problems);
  AuditReport report;
  const bool is_one_run = std::ranges::find(problems, ProblemKind::start, &Problem::kind) == problems.end();
  if (is_one_run) report = audit_run(dir.string(), phases, options, run);  // else samples say nothing
  std::set<std::uint64_t> suspects;
  for (const Problem& problem : report.problems) suspects.insert(problem.suspect);
  suspects.erase(0);
  const auto seen = trace::find_facts(phases, suspects);
  for (Problem& problem : std::exchange(report.problems, {})) {
    const auto found = seen.find(problem.suspect);
    if (found != seen.end()) blame(problem, found->second, run.is_stream());
    add(problems, std::move(problem));
  }
  std::ranges::stable_sort(problems, {}, [](const Problem& problem) {  // those of no phase are the last
    return std::tuple(problem.kind > ProblemKind::start, static_cast<std::uint64_t>(problem.phase),
                      static_cast<std::uint64_t>(problem.step));
  });
  report.problems = std::move(problems);
  return report;
}

}  // namespace rota::cli
