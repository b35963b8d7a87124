#pragma once

// The audit of a run's traces: was every sample of each epoch delivered exactly once, by ranks in lockstep,
// in equal slices, always with the same bytes, whatever the worlds were and however the run was interrupted?
// Next: audit_text.hpp, which prints the answer.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/problems.hpp"
#include "cli/trace.hpp"

namespace rota::tracing {

/// What is to be audited, and how strictly.
struct AuditOptions {
  std::int64_t samples = 0;  ///< N, which every start record must agree with
  std::optional<std::int64_t> batch =
      std::nullopt;  ///< a global batch size that at least one phase must have
  std::optional<std::int64_t> epochs = std::nullopt;  ///< the run must have ended after exactly so many
  bool complete = false;                              ///< the last epoch must be complete
  bool running = false;  ///< the last phase may still be writing: look at what all its ranks have
};

/// One phase, as far as it counts.
struct PhaseReport {
  TraceStart start;              ///< of its lowest rank
  std::int64_t steps = 0;        ///< global batches that were not rolled back
  std::int64_t rolled_back = 0;  ///< those that were
  std::int64_t samples = 0;      ///< consumed by `steps`
  std::optional<TraceEnd> end =
      std::nullopt;  ///< the slowest rank's seconds; nothing where a rank did not end in order
};

/// A global batch, in brief.
struct BatchPrint {
  Place place;
  std::int64_t n = 0;
  std::uint64_t ids = 0;      ///< hash of the ids in canonical order
  std::uint64_t marks = 0;    ///< of what each slot holds
  std::uint64_t digests = 0;  ///< of the samples' digests
  friend bool operator==(const BatchPrint&, const BatchPrint&) = default;
};

/// What an audit found.
struct AuditReport {
  std::vector<Problem> problems;
  std::vector<PhaseReport> phases;
  std::vector<BatchPrint> batches;  ///< the run's global batches, without those rolled back
  Place end;                        ///< where the last of them ends
  std::int64_t samples = 0;         ///< consumed, skipped ones included
  std::int64_t skipped = 0;
  std::int64_t padded = 0;
  std::int64_t dropped = 0;  ///< left out at the ends of epochs by Tail::drop

  [[nodiscard]] bool passed() const noexcept { return problems.empty(); }
};

/// Audits the traces in `dir`. Batches of a phase at or after the place from which a later phase resumed were
/// rolled back: they do not count, but must hold the same bytes, and the same samples where they were run
/// again. Memory: 8 bytes per sample, a bit per sample and open epoch, 40 bytes per global batch. Throws
/// Error{not_found} for a missing directory or one without traces, Error{io}.
AuditReport audit(const std::filesystem::path& dir, const AuditOptions& options);

/// Adds a problem to `report` unless `other`, the audit of `other_dir`, found the same global batches.
void compare(AuditReport& report, const AuditReport& other, const std::filesystem::path& other_dir);

}  // namespace rota::tracing
