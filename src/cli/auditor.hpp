#pragma once

// The core of an audit, whatever identifies a sample. Next: sample_auditor.hpp, stream_auditor.hpp.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/audit.hpp"
#include "cli/steps.hpp"

namespace rota::trace {

/// No step is rolled back.
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Follows a run through its phases, in order: ranks in lockstep, steps without a gap, phases that begin
/// where the steps before lead. What is in a step is for the auditors that derive from it. *One thread.*
class Auditor {
 public:
  Auditor(AuditOptions options, TraceStart first, Problems& problems)
      : start_(std::move(first)), options_(std::move(options)), problems_(&problems) {}
  virtual ~Auditor() = default;
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;

  /// A phase begins. Its steps from `limit` on were rolled back; `may_run` says that its ranks may still be
  /// writing.
  void begin_phase(const TraceStart& start, std::int64_t limit, bool may_run);
  void step(const Step& step);
  /// It ends, with the end records of all its ranks' files.
  void end_phase(const std::vector<std::optional<TraceEnd>>& ends);

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
  [[nodiscard]] PhaseReport& phase() { return report_.phases.back(); }

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes): what all auditors work on
  AuditReport report_;
  Position at_;
  TraceStart start_;             // of the phase at hand
  std::optional<TraceEnd> end_;  // of the last phase whose ranks all ended in order
  AuditOptions options_;
  Problems* problems_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)

 private:
  void check_lockstep(const Step& step, bool counts);
  [[nodiscard]] bool is_effective(const Step& step) const;

  std::int64_t limit_ = kNoLimit;
  bool may_run_ = false;
};

/// The auditor of runs that begin like this.
std::unique_ptr<Auditor> make_auditor(const AuditOptions& options, const TraceStart& first,
                                      Problems& problems);

}  // namespace rota::trace
