#pragma once

// The core of an audit, of Loaders and of streams. Next: auditor.cpp.

#include "cli/audit.hpp"
#include "trace/phase_steps.hpp"

namespace rota::cli {

/// Follows `run` through its phases, of which there is one at least. Throws Error{io}, std::bad_alloc for
/// more samples than there is memory.
AuditReport audit_phases(const trace::Phases& phases, const trace::TraceStart& run,
                         const AuditOptions& options);

}  // namespace rota::cli
