#pragma once

// The audit of a run's traces: was every sample of each epoch delivered exactly once, by ranks in lockstep,
// in equal slices, always with the same bytes, whatever the worlds were and however the run was interrupted?
// Next: auditor.hpp.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/trace_file.hpp"

namespace rota::cli {

/// Which promise is broken.
enum class ProblemKind {
  format,      ///< a file or record that is no trace
  files,       ///< a rank without a file, or with two
  start,       ///< start records that contradict each other or what was asked for
  lockstep,    ///< ranks that did not take the same steps
  slices,      ///< a rank whose slice is not its equal share
  owner,       ///< a shard of a stream that two ranks had at a time
  size,        ///< a global batch of the wrong size
  gap,         ///< a global batch, or a phase, that does not start where the one before ended
  repeated,    ///< a sample delivered twice in an epoch
  missing,     ///< a sample not delivered in an epoch
  range,       ///< a sample or place that does not exist
  padding,     ///< padding where there should be none, or none where there should be
  content,     ///< a sample with different bytes at different times
  order,       ///< a batch that was rolled back and came out differently when run again
  unfinished,  ///< a run that was to be complete and is not
  difference,  ///< another sequence of global batches than that of the trace compared with
};

/// One thing that is wrong, and where. Others of the same kind, phase and rank are counted with the first.
struct Problem {
  ProblemKind kind = ProblemKind::format;
  std::int64_t phase = -1;  ///< -1: none in particular
  int rank = -1;            ///< -1: none in particular
  std::string where = {};   ///< where the global batch starts
  std::string text;
  std::int64_t count = 1;
};

/// "lockstep: phase 1, rank 2, epoch 0, sample 64, step 4: the other ranks have no batch here".
std::string to_string(const Problem& problem);

/// Collects problems, those of one kind, phase and rank as one. *One thread.*
class Problems {
 public:
  void add(Problem problem);
  [[nodiscard]] const std::vector<Problem>& all() const noexcept { return problems_; }
  [[nodiscard]] std::vector<Problem> take() { return std::move(problems_); }

 private:
  std::vector<Problem> problems_;
};

/// How strictly is to be audited.
struct AuditOptions {
  /// N of each dataset, in order, which every start record must agree with; of a stream, the samples of each
  /// complete epoch. Empty: what the start records say, which proves less, for the run itself wrote them; of
  /// a stream, nothing is known of what its shards hold.
  std::vector<std::int64_t> samples = {};
  std::optional<std::int64_t> batch =
      std::nullopt;  ///< a global batch size that at least one phase must have
  std::optional<std::int64_t> epochs = std::nullopt;  ///< the run must have ended after exactly so many
  bool complete = false;                              ///< the last epoch must be complete
  bool running = false;  ///< the last phase was killed or still writes: look at what all its ranks have
};

/// One phase, as far as it counts.
struct PhaseReport {
  trace::TraceStart start;       ///< of its lowest rank
  std::int64_t steps = 0;        ///< global batches that were not rolled back
  std::int64_t rolled_back = 0;  ///< those that were
  std::int64_t samples = 0;      ///< consumed by `steps`
};

/// A global batch, in brief.
struct BatchPrint {
  Position start;
  std::int64_t n = 0;
  std::uint64_t ids = 0;      ///< hash of the ids in canonical order
  std::uint64_t kinds = 0;    ///< of what each slot holds
  std::uint64_t digests = 0;  ///< of the samples' digests
  friend bool operator==(const BatchPrint&, const BatchPrint&) = default;
};

/// A dataset of a mixture.
struct DatasetReport {
  std::int64_t samples = 0;  ///< N
  std::int64_t epochs = 0;   ///< complete
  std::int64_t rest = 0;     ///< samples of the next one
};

/// A sample of a stream, at its place in its shard.
struct StreamEntry {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::uint64_t digest = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const StreamEntry&, const StreamEntry&) = default;
};
/// What was delivered of each epoch and shard: 24 bytes a sample.
using StreamEntries = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<StreamEntry>>;

/// What an audit found.
struct AuditReport {
  std::vector<Problem> problems;
  std::vector<PhaseReport> phases;
  Position end;                         ///< where the last global batch ends
  std::int64_t samples = 0;             ///< consumed, skipped ones included
  std::vector<BatchPrint> batches;      ///< not of a stream: global batches, without those rolled back
  std::vector<DatasetReport> datasets;  ///< of a mixture
  StreamEntries shards;                 ///< of a stream
  std::int64_t skipped = 0;
  std::int64_t padded = 0;
  std::int64_t dropped = 0;  ///< left out at the ends of epochs by Tail::drop

  [[nodiscard]] bool passed() const noexcept { return problems.empty(); }
};

/// Audits the traces in `dir`. Steps of a phase at or after the one from which a later phase resumed were
/// rolled back: they do not count, but must hold the same bytes, and the same samples where a batch of the
/// same place and size was run again. Memory: 8 bytes and a bit per sample, a bit per sample and open epoch,
/// 56 bytes per global batch that counts, 16 per slot that was rolled back; of streams, 24 bytes for each
/// sample delivered, 64 for each rolled back. Lists that grow take up to twice as much. Throws
/// Error{not_found} for a missing directory or one without traces, Error{io}, also for want of memory,
/// Error{invalid_argument} for `epochs` or `complete` of a mixture, whose datasets have their own, and for
/// several `samples` of a stream.
AuditReport audit(const std::filesystem::path& dir, const AuditOptions& options);

/// Adds the problems of `other`, an audit of the trace called `other_name`, to `report`, and one unless both
/// found the same global batches; of streams, the same samples of each shard in the same order. Compares
/// nothing where one of them was not audited.
void compare(AuditReport& report, const AuditReport& other, const std::string& other_name);

/// The report for people: what there is, the phases as a table, and the verdict, with the first
/// `max_problems` problems and the number of the others. Unless it `knows_samples` from others than the
/// trace, it says so.
std::string audit_text(const AuditReport& report, const std::filesystem::path& dir, bool knows_samples,
                       std::size_t max_problems = 20);

/// The problems alone, one a line, the first `max_problems` and the number of the others.
std::string problem_text(const std::vector<Problem>& problems, std::size_t max_problems = 20);

}  // namespace rota::cli
