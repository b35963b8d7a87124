#pragma once

// Audits of runs that never happened.

#include "cli/audit.hpp"
#include "cli/fake_run.hpp"

inline std::vector<rota::cli::ProblemKind> kinds(const rota::cli::AuditReport& report) {
  std::vector<rota::cli::ProblemKind> kinds;
  for (const auto& problem : report.problems) kinds.push_back(problem.kind);
  return kinds;
}

inline std::string text(const rota::cli::AuditReport& report) {
  return rota::cli::problem_text(report.problems);
}

inline rota::cli::AuditReport audit_of(const FakeRun& run, rota::cli::AuditOptions options = {}) {
  const rota::test::TemporaryDirectory dir;
  run.write(dir.path());
  options.samples = {run.samples()};
  return rota::cli::audit(dir.path(), options);
}

// 100 samples, two epochs, three phases of 2, 3 and 1 ranks; the batch size changes once.
inline FakeRun three_worlds() {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 5).phase(3, 10, 4).phase(1, 16);
  return run;
}
