#pragma once

// Starts the driver under mpirun and the interposed library, and reads what its ranks report.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "run_command.hpp"
#include "temporary_directory.hpp"

namespace rota::test {

/// A directory for a test, in memory where that can be had: the tests care for calls, and not for disks.
rota::test::TemporaryDirectory make_fast_directory();

/// Whether all there is to run is wanted, and not a part that stands for it: ROTA_FAULTS=full.
bool wants_all();

/// What one rank said of one case: WHAT -> TEXT.
using Said = std::map<std::string, std::string>;

/// What all ranks said of one case, by rank; empty where a rank said nothing.
using CaseReport = std::vector<Said>;

/// The driver, for directories below `under`.
class Launcher {
 public:
  explicit Launcher(std::filesystem::path under) : under_(std::move(under)) {}

  /// Runs it on `ranks` ranks, for at most a minute and a half. Exit code 124 means that it had to be
  /// stopped.
  [[nodiscard]] rota::test::Ended run(int ranks, const std::string& arguments,
                                      const std::string& environment = {}) const;

  /// Runs it over `cases`, the lines of its file of cases, as `<command> REPORT CASES`. Where it dies, or
  /// hangs, in the middle, it is started again for those cases that are left.
  [[nodiscard]] std::vector<CaseReport> run_all(int ranks, const std::string& command,
                                                const std::vector<std::string>& cases) const;

 private:
  std::filesystem::path under_;
};

}  // namespace rota::test
