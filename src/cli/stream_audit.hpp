#pragma once

// The audit of a run over streams: was every sample of each shard delivered exactly once per epoch, in the
// order of its stream, by ranks in lockstep, whatever the worlds were and however the run was interrupted?

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/problems.hpp"
#include "cli/stream_ledger.hpp"
#include "cli/stream_trace.hpp"

namespace rota::tracing {

/// How strictly is to be audited. What a stream holds is known to nobody before it was read to its end: that
/// nothing is missing there is only found with `samples`, or by another run's trace.
struct StreamAuditOptions {
  std::optional<std::int64_t> samples = std::nullopt;  ///< every complete epoch has so many
  std::optional<std::int64_t> epochs = std::nullopt;   ///< the run must have ended after exactly so many
  bool complete = false;                               ///< the run must have ended
};

/// One phase, as far as it counts.
struct StreamPhaseReport {
  StreamTraceStart start;        ///< of its lowest rank
  std::int64_t steps = 0;        ///< that were not rolled back
  std::int64_t rolled_back = 0;  ///< those that were
  std::int64_t samples = 0;      ///< of `steps`
};

/// What an audit found.
struct StreamAuditReport {
  std::vector<Problem> problems;
  std::vector<StreamPhaseReport> phases;
  StreamLedger::Shards shards;  ///< what was delivered
  StreamPosition end;           ///< complete epochs and steps
  bool has_ended = false;
  std::int64_t samples = 0;  ///< delivered in all

  [[nodiscard]] bool passed() const noexcept { return problems.empty(); }
};

/// Audits the stream traces in `dir`. Steps of a phase at or after the one from which a later phase resumed
/// were rolled back: they do not count, but each sample must come out the same when run again. Where no rank
/// of the last phase has ended, steps that not all of its ranks have do not count either. Throws
/// Error{not_found} for a missing directory or one without traces, Error{io}.
StreamAuditReport audit_streams(const std::filesystem::path& dir, const StreamAuditOptions& options);

/// Adds a problem to `report` unless `other`, the audit of `other_dir`, found the same samples of each shard
/// in the same order.
void compare(StreamAuditReport& report, const StreamAuditReport& other,
             const std::filesystem::path& other_dir);

/// The report for people: what there is, the phases as a table, and the verdict.
std::string stream_audit_text(const StreamAuditReport& report, const std::filesystem::path& dir);

}  // namespace rota::tracing
