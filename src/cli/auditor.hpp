#pragma once

// The core of an audit, whatever identifies a sample. Next: sample_auditor.cpp, stream_auditor.cpp.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/audit.hpp"
#include "trace/trace_file.hpp"

namespace rota::cli {

/// What one rank has for one global batch; valid until the next step.
struct Slice {
  int rank = 0;
  const trace::TraceBatch* batch = nullptr;
};

/// A rank with a file that has nothing for it.
struct Absence {
  enum class Reason {
    passed,   ///< the rank is already past this step
    damaged,  ///< the same, after a record that could not be read
    ended,    ///< the rank's trace ends before this step
  };
  int rank = 0;
  Reason reason = Reason::passed;
};

/// One global batch, as told by the ranks of a phase.
struct Step {
  Position start;               ///< as the lowest rank says that has it
  std::int64_t n = 0;           ///< slots, as that rank says
  std::vector<Slice> slices;    ///< in order of rank
  std::vector<Absence> absent;  ///< in order of rank
  /// Most ranks with a file do not have it.
  [[nodiscard]] bool is_stray() const noexcept { return slices.size() < absent.size(); }
  /// Every rank with a file has it.
  [[nodiscard]] bool is_complete() const noexcept { return absent.empty(); }
};

/// Follows a run through its phases, in order: ranks in lockstep, steps without a gap, phases that begin
/// where the steps before lead. What is in a step is for the auditors that derive from it. *One thread.*
class Auditor {
 public:
  Auditor(AuditOptions options, Problems& problems) : options_(std::move(options)), problems_(&problems) {}
  virtual ~Auditor() = default;
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;

  /// Audits the next phase, which has these files, one per rank. Its steps from `limit` on were rolled back;
  /// `may_run` says that its ranks may still be writing.
  void audit_phase(const trace::TraceStart& start, const std::vector<std::filesystem::path>& files,
                   std::int64_t limit, bool may_run);

  /// The run ends. Problems are left to the caller.
  AuditReport finish();

 protected:
  /// Whether a step, or phase, may start there.
  [[nodiscard]] virtual bool follows(const Position& start) const = 0;
  /// Where the next step is to start.
  [[nodiscard]] virtual Position after(const Step& step) const = 0;
  /// The run goes on at `to`, `is_gap`: though something is missing before it.
  virtual void move_to(const Position& to, bool is_gap) = 0;
  /// Looks at a step. `counts`: it was not rolled back, `moves`: most ranks have it, too.
  virtual void check(const Step& step, bool counts, bool moves) = 0;
  /// Says what can be said of a run that ended, and completes the report.
  virtual void close() = 0;

  void add(ProblemKind kind, const Step& step, int rank, std::string text);
  void add(ProblemKind kind, std::string text);  // of the phase
  /// "epoch 1, sample 640, step 12"; of a stream, whose places count no samples, "epoch 1, step 12".
  [[nodiscard]] std::string text(const Position& place) const;
  [[nodiscard]] PhaseReport& phase() { return report_.phases.back(); }

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes): what all auditors work on
  AuditReport report_;
  Position at_;
  trace::TraceStart start_;             // of the phase at hand
  std::optional<trace::TraceEnd> end_;  // of the last phase whose ranks all ended in order
  AuditOptions options_;
  Problems* problems_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)

 private:
  void audit_step(const Step& step, bool counts);
  void check_lockstep(const Step& step, bool counts);
  void check_ends(const std::vector<std::optional<trace::TraceEnd>>& ends, std::int64_t limit);
};

/// The auditor of samples with ids, of one dataset or of each of a mixture.
std::unique_ptr<Auditor> make_sample_auditor(const AuditOptions& options, const trace::TraceStart& first,
                                             Problems& problems);
/// The auditor of streams.
std::unique_ptr<Auditor> make_stream_auditor(const AuditOptions& options, const trace::TraceStart& first,
                                             Problems& problems);

}  // namespace rota::cli
