#pragma once

// Starts the driver under mpirun, from a test that looks at what its ranks report.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "report.hpp"
#include "run_command.hpp"
#include "temporary_directory.hpp"

namespace rota::test {

/// Whether all there is to run is wanted, and not a part that stands for it: ROTA_FAULTS=full.
inline bool wants_all() {
  const char* value = std::getenv("ROTA_FAULTS");
  return value != nullptr && std::string_view(value) == "full";
}

/// How a launch ended, and what each rank reported.
struct Launched {
  rota::test::Ended ended = {};
  std::vector<std::vector<std::string>> reports = {};
  int limit_seconds = 0;

  /// timeout(1) had to stop it. Its exit code does not say so: mpirun's is 137, too, where a rank was killed.
  [[nodiscard]] bool hung() const { return ended.code == 124 || ended.seconds >= limit_seconds; }
};

/// Runs `<driver> COMMAND REPORT ARGUMENTS` on `ranks` ranks, for at most `seconds`, with `environment`
/// before it. `report` is a new directory, also for the files of Open MPI itself: launches at the same time
/// would remove those of one another.
inline Launched launch(int ranks, const std::string& command, const std::filesystem::path& report,
                       const std::string& arguments, int seconds = 90, const std::string& environment = {}) {
  std::filesystem::create_directories(report);
  Launched launched{.limit_seconds = seconds};
  launched.ended = rota::test::run_command(
      "env " + environment +
      " OMPI_MCA_odls_base_sigkill_timeout=0 OMPI_MCA_orte_tmpdir_base=" + report.string() +
      " timeout -k 5 " + std::to_string(seconds) + " " ROTA_MPIEXEC " " + std::to_string(ranks) +
      " " ROTA_PROGRAMS "/endurance_driver" " " + command + " " + report.string() + " " + arguments);
  for (int rank = 0; rank < ranks; ++rank) launched.reports.push_back(read_report(report, rank));
  return launched;
}

}  // namespace rota::test
