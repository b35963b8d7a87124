// `rota audit`: audits the traces of a run, and reports it as text.

#include "cli/audit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"
#include "core/scarce.hpp"
#include "files/path.hpp"

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
  for (const TraceStart& start : starts) {  // of datasets that come and go, all that there ever were
    if (start.is_same_run(run) && start.samples.size() > run.samples.size()) run = start;
  }
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
    throw internal::failure(ErrorCode::invalid_argument, "audit {}: it is of {}", dir, why);
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

// ---- as text ----

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
  note(std::ssize(report.dropped_by_hand), were(std::ssize(report.dropped_by_hand)) + " dropped by hand");
  note(std::ssize(report.open),
       counted(std::ssize(report.open), "sample is", "samples are") + " open: handed out, and not settled");
  if (start.is_mixture()) return {counted(std::ssize(report.datasets), "dataset"), text};
  const std::string epochs = counted(report.end.epoch, "complete epoch");
  return {start.is_stream() ? epochs : fmt::format("{} of {} samples", epochs, samples), text};
}

// What a proof rests on that the run said of itself.
std::string premise(const AuditReport& report) {
  return report.phases.front().start.is_stream()
             ? "what shards hold is not known: --samples or --same-as would find samples missing at their "
               "ends\n"
             : "how many samples there are is what the trace says: --samples holds it against what you "
               "know\n";
}

}  // namespace

AuditReport audit(const std::filesystem::path& dir, const AuditOptions& options) {
  Problems problems;
  std::vector<std::string> damage;
  const Phases phases = trace::find_phases(dir, damage);
  for (const std::string& text : damage) add(problems, {.kind = ProblemKind::format, .text = text});
  if (phases.empty()) {
    throw internal::failure(ErrorCode::not_found, "audit {}: there is no trace in it{}{}", dir.string(),
                            damage.empty() ? "" : "; ", fmt::join(damage, "; "));
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
  report.traces = phases;
  return report;
}

std::string_view to_string(ProblemKind kind) {
  constexpr std::array<std::string_view, 10> kKinds{
      "format", "files", "start", "lockstep", "gap", "batch", "repeated", "missing", "content", "difference"};
  static_assert(static_cast<std::size_t>(ProblemKind::difference) + 1 == kKinds.size());
  return kKinds[static_cast<std::size_t>(kind)];
}

std::string to_string(const Problem& problem) {
  std::string where = problem.phase < 0 ? "" : fmt::format(" phase {},", problem.phase);
  if (problem.rank >= 0) where += fmt::format(" rank {},", problem.rank);
  if (!problem.where.empty()) where += fmt::format(" {},", problem.where);
  if (!where.empty()) where.back() = ':';
  const auto more = problem.count > 1 ? fmt::format(" (and {} more like it)", problem.count - 1) : "";
  return fmt::format("{}:{} {}{}", to_string(problem.kind), where, problem.text, more);
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

std::string verdict(const AuditReport& report) {
  if (!report.passed()) return "found " + counted(std::ssize(report.problems), "problem");
  if (report.phases.front().start.is_stream())
    return "passed: each sample of a shard exactly once per epoch and in order, ranks in lockstep";
  const auto is_uneven = [](const PhaseReport& phase) {
    return phase.start.split == Split::by_shard || phase.start.split == Split::balanced;
  };
  return fmt::format(
      "passed: each sample exactly once per epoch{}, ranks in lockstep, {}one content per sample",
      report.is_by_hand ? " and settled, dropped or open" : "",
      std::ranges::any_of(report.phases, is_uneven) ? "" : "equal slices, ");
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
  if (report.passed()) return text + (knows_samples ? "" : premise(report)) + verdict(report) + "\n";
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

namespace {

constexpr int kMostDatasets = 4096;

constexpr const char* kAuditHelp =
    "Audits the traces (*.jsonl) in DIR: each sample exactly once per epoch, ranks in lockstep, equal slices "
    "where ranks do not read whole shards, one content per sample; of a stream, the samples of each shard in "
    "order. Batches at or after the step from which a later phase resumed were rolled back and do not count; "
    "an unterminated last line is ignored. Exit code 0: all held, 1: it did not, 2: usage.";

struct AuditCommand {
  std::filesystem::path dir;
  std::optional<std::filesystem::path> same_as;
  AuditOptions options;
  bool is_json = false;
};

int run_audit(const AuditCommand& command) {
  AuditReport report = audit(internal::path_on_disk(command.dir), command.options);
  if (command.same_as)
    compare(report, audit(internal::path_on_disk(*command.same_as), command.options),
            command.same_as->string());
  if (command.is_json) {
    AuditOptions running = command.options;
    running.running = true;
    fmt::print(
        "{}",
        audit_json(report, report.passed() ? report : audit(internal::path_on_disk(command.dir), running)));
    return report.passed() ? 0 : kProblems;
  }
  // Of a Loader, another trace may be as wrong of the number as this one.
  const bool is_stream = !report.phases.empty() && report.phases.front().start.is_stream();
  const bool knows_samples = !command.options.samples.empty() || (command.same_as && is_stream);
  fmt::print("{}", audit_text(report, command.dir, knows_samples));
  if (!report.passed()) return kProblems;
  if (command.same_as) {
    fmt::print("passed: the same {} as {}\n", is_stream ? "samples of each shard" : "global batches",
               command.same_as->string());
  }
  return 0;
}

}  // namespace

void add_audit(CLI::App& app, int& code) {
  const auto audit = std::make_shared<AuditCommand>();
  CLI::App& command = *app.add_subcommand("audit", kAuditHelp);
  command.add_option("DIR", audit->dir, "directory of the trace files")->required();
  const auto add_samples = [audit](const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      audit->options.samples.push_back(parse_number("--samples", text, 0, trace::kMaxTraced));
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--samples", add_samples,
          "N, the samples of the dataset, N,M,... of those of a mixture; of a stream, those of an epoch. "
          "Left out, it is what the trace says, which proves less; and of a stream, nothing is known then of "
          "the ends of its shards")
      ->delimiter(',')
      ->expected(1, kMostDatasets)
      ->type_name("INT,...");
  add_number(command, "--batch", audit->options.batch, 1,
             "the global batch size, which at least one phase must have; each phase is held to its own");
  add_number(command, "--epochs", audit->options.epochs, 0,
             "the run must have ended after exactly so many epochs");
  command.add_flag("--complete", audit->options.complete, "the last epoch must be complete, not in progress");
  command.add_flag("--running", audit->options.running,
                   "the last phase was killed, or still writes: look at the batches that all its ranks have");
  command.add_option(
      "--same-as", audit->same_as,
      "another trace, with the same global batches; of a stream, the same samples of each shard");
  command.add_flag("--json", audit->is_json, "one line of JSON: also what each phase waited for");
  command.callback([audit, &code] { code = run_audit(*audit); });
}

}  // namespace rota::cli
