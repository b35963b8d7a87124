#pragma once

// What the demo prints: what it runs, a row for each phase, and the verdict.

#include <cstdint>
#include <string>

#include "cli/audit.hpp"
#include "options.hpp"
#include "phase.hpp"

namespace rescale_demo {

/// What the run is, and the head of the table.
std::string table_head(const DriverOptions& options, std::int64_t samples);

/// A phase's row.
std::string table_row(std::int64_t phase, const WorldOptions& world, const PhaseSummary& summary);

/// That of a phase that was killed behind its save.
std::string killed_row(std::int64_t phase, const WorldOptions& world);

/// The run of a plan as a strip of lines: who read, in batches of which size, and which datasets had turns.
std::string strip(const DriverOptions& options, const rota::Mixture& mixture,
                  const rota::cli::AuditReport& run);

/// The row of the reference run.
std::string reference_row(std::int64_t steps, std::int64_t samples);

/// What was proven, in one sentence. `run` passed its audit.
std::string proven(const DriverOptions& options, const rota::cli::AuditReport& run, std::int64_t samples);

}  // namespace rescale_demo
