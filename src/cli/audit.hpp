#pragma once

// The audit of a run's traces: was every sample of each epoch delivered exactly once, by ranks in lockstep,
// in equal slices, always with the same bytes, whatever the worlds were and however the run was interrupted?
// Next: auditor.cpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/phases.hpp"

namespace rota::cli {

/// Which promise is broken.
enum class ProblemKind {
  format,      ///< a file or record that is no trace
  files,       ///< a rank without a file, or with two
  start,       ///< start records that contradict each other or the options
  lockstep,    ///< ranks that did not take the same steps
  gap,         ///< a step or phase that does not start where the one before ended
  batch,       ///< a global batch of the wrong size, shares, padding or samples
  repeated,    ///< a sample delivered twice in an epoch
  missing,     ///< a sample not delivered in an epoch, or an epoch not delivered
  content,     ///< a sample with other bytes, or another sample where a step was run again
  difference,  ///< another sequence of samples than in the trace compared with
};

std::string_view to_string(ProblemKind kind);

/// One thing that is wrong, and where. Others of the same kind, phase and rank are counted with the first.
struct Problem {
  ProblemKind kind = ProblemKind::format;
  std::int64_t phase = -1;  ///< -1: none in particular, as for the next two
  int rank = -1;
  std::int64_t step = -1;
  std::string where = {};  ///< that step's position
  std::string text;
  std::int64_t count = 1;
  std::uint64_t suspect = 0;  ///< key of a `Fact`: other records of it show which is wrong; 0: none
};

/// "lockstep: phase 1, rank 2, epoch 0, sample 64, step 4: has no batch here, where other ranks do".
std::string to_string(const Problem& problem);
/// "epoch 1, sample 640, step 12"; of a stream, whose positions count no samples, "epoch 1, step 12".
std::string text_of(const Position& position, bool is_stream);
/// Adds a problem, or counts it with one of its kind, phase and rank.
void add(std::vector<Problem>& problems, Problem problem);

/// How strictly to audit.
struct AuditOptions {
  /// N of each dataset; of a stream, the samples of each complete epoch. Empty: what the start records say,
  /// which proves less, for the run wrote them; of a stream, the ends of its shards are not known then.
  std::vector<std::int64_t> samples = {};
  std::optional<std::int64_t> batch = std::nullopt;   ///< global batch size of at least one phase
  std::optional<std::int64_t> epochs = std::nullopt;  ///< the run must have ended after exactly so many
  bool complete = false;                              ///< the last epoch must be complete
  bool running = false;  ///< the last phase was killed or still writes: look at what all its ranks have
};

/// One phase.
struct PhaseReport {
  trace::TraceStart start;       ///< as most ranks say
  std::int64_t steps = 0;        ///< global batches that were not rolled back
  std::int64_t rolled_back = 0;  ///< those that were
  std::int64_t samples = 0;      ///< consumed by `steps`
};

/// A dataset of a mixture, of `samples`.
struct DatasetReport {
  std::int64_t samples = 0;
  std::int64_t epochs = 0;  ///< complete
  std::int64_t rest = 0;    ///< samples of the next one
};

/// What an audit found.
struct AuditReport {
  std::vector<Problem> problems;    ///< the earliest first
  trace::Phases traces;             ///< that were audited
  std::vector<PhaseReport> phases;  ///< none where the traces are of several runs
  Position end;                     ///< where the last global batch ends
  std::int64_t samples = 0;         ///< consumed, skipped ones included
  /// Where each global batch starts that was not rolled back, and a hash of its samples; of a stream, epoch
  /// and shard, as `consumed`, and a hash of the samples.
  std::vector<std::pair<Position, std::uint64_t>> batches;
  std::vector<DatasetReport> datasets;  ///< of a mixture
  std::int64_t skipped = 0;
  std::int64_t padded = 0;
  std::int64_t dropped = 0;              ///< left out at the ends of epochs by Tail::drop
  bool is_by_hand = false;               ///< in some phase, what was handed out counts once it is settled
  std::set<trace::TraceName> open = {};  ///< in the end, and neither settled nor dropped
  std::set<trace::TraceName> dropped_by_hand = {};

  [[nodiscard]] bool passed() const noexcept { return problems.empty(); }
};

/// Audits the traces in `dir`. A phase that resumes from an earlier step rolls back the steps from there on.
/// They are checked as all others are, but do not count: their samples are delivered again. Traces with
/// problems are read twice. Memory: 8 bytes per sample, and per epoch where its bytes change by
/// that; a bit per sample and open epoch; 32 bytes per global batch that counts; of streams, 16 bytes per
/// sample. Bits and those 16 bytes are kept once more for each step that a later phase resumes from, which is
/// mostly one. 16 bytes per sample that is or may be rolled back. Lists that grow take up to twice as much.
/// Throws Error{not_found} for a missing directory or one without traces, Error{io}, also for want of memory,
/// Error{invalid_argument} for `epochs` or `complete` of a mixture, whose datasets have their own, and for
/// several `samples` of a stream.
AuditReport audit(const std::filesystem::path& dir, const AuditOptions& options);

/// Follows `run` through its phases, of which there is one at least: the core of `audit`. Throws Error{io},
/// std::bad_alloc for more samples than there is memory.
AuditReport audit_phases(const trace::Phases& phases, const trace::TraceStart& run,
                         const AuditOptions& options);

/// Adds the problems of `other`, an audit of the trace called `other_name`, and one unless both have the same
/// global batches; of streams, the same samples of each shard in the same order.
void compare(AuditReport& report, const AuditReport& other, const std::string& other_name);

/// The report for people. Unless it `knows_samples` from others than the trace, it says so.
std::string audit_text(const AuditReport& report, const std::filesystem::path& dir, bool knows_samples);
/// "passed: ...", and what was proven; or "found 3 problems".
std::string verdict(const AuditReport& report);
/// The report as a line of JSON, as docs/traces.md has it, with what ranks waited for. `so_far` is of what
/// all ranks of the last phase have. Reads the traces once more. Throws Error{io}.
std::string audit_json(const AuditReport& report, const AuditReport& so_far);
/// The first 20 problems, one a line, and the number of the others.
std::string problem_text(const std::vector<Problem>& problems);

}  // namespace rota::cli
