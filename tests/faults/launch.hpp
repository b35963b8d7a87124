#pragma once

// Starts a job under mpirun, from a test that looks at what its ranks say.

#include "jobs.hpp"
#include "run_command.hpp"

namespace rota::test {

/// What one rank said of one case: WHAT -> TEXT, the last one.
using Said = std::map<std::string, std::string>;

/// What was said under `what`; "(nothing)" where that was nothing.
std::string said(const Said& by_rank, const std::string& what);

/// What all ranks said of one case, by rank.
using CaseReport = std::vector<Said>;

/// How a launch ended, and what was said of its cases: of those that were begun.
struct Launched {
  Ended ended;
  std::vector<CaseReport> cases;
  /// timeout(1) had to stop it. Its exit code does not say so: mpirun's is 137, too, where a rank was killed.
  bool hung = false;
};

/// Runs a job on `ranks` ranks, for at most `seconds`, with `environment` before it.
Launched launch(const std::string& job, int ranks, const std::vector<std::string>& cases, int seconds = 90,
                const std::string& environment = {});

/// A directory for a test, in memory where that can be had: the tests care for calls, and not for disks.
TemporaryDirectory make_fast_directory();

/// The environment under which faults happen to calls, and are recorded, below `directory`.
std::string interposed_below(const fs::path& directory);

/// Does `work` with 0, 1, ... below `count`, by `workers` threads: where each mostly waits.
void do_at_once(std::size_t workers, std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace rota::test
