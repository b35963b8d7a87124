#pragma once

// An audit's report as text.

#include <filesystem>
#include <string>

#include "cli/audit.hpp"

namespace rota::trace {

/// The report for people: what there is, the phases as a table, and the verdict, with the first
/// `max_problems` problems and the number of the others. Unless it `knows_samples` from others than the
/// trace, it says so.
std::string audit_text(const AuditReport& report, const std::filesystem::path& dir, bool knows_samples,
                       std::size_t max_problems = 20);

/// The problems alone, one a line, the first `max_problems` and the number of the others.
std::string problem_text(const std::vector<Problem>& problems, std::size_t max_problems = 20);

}  // namespace rota::trace
