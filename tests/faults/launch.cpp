#include "launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace rota::test {
namespace {

namespace fs = std::filesystem;

// Few enough that they never take long.
constexpr std::size_t kCasesAtOnce = 150;

std::string unique_name() {
  static std::atomic<int> count = 0;
  return "launch" + std::to_string(count++);
}

// Adds what rank files say; returns how many cases were begun.
std::size_t read_report(const fs::path& directory, std::span<CaseReport> cases, std::size_t ranks) {
  std::size_t begun = 0;
  for (CaseReport& report : cases) report.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::ifstream in(directory / std::to_string(rank));
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::size_t number = 0;
      std::string what;
      std::string text;
      words >> number >> what >> std::ws;
      std::getline(words, text);
      cases[number][rank][what] = text;
      begun = std::max(begun, number + 1);
    }
  }
  return begun;
}

}  // namespace

rota::test::TemporaryDirectory make_fast_directory() {
  if (::access("/dev/shm", W_OK | X_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  return {};
}

bool wants_all() {
  const char* value = std::getenv("ROTA_FAULTS");
  return value != nullptr && std::string_view(value) == "full";
}

rota::test::Ended Launcher::run(int ranks, const std::string& arguments,
                                const std::string& environment) const {
  return rota::test::run_command("OMPI_MCA_odls_base_sigkill_timeout=0 timeout -k 5 90 " ROTA_MPIEXEC " " +
                                 std::to_string(ranks) + " env LD_PRELOAD=" ROTA_FAULTS_LIBRARY +
                                 " ROTA_FAULTS_UNDER=" + under_.string() + " " + environment +
                                 " " ROTA_PROGRAMS "/faults_driver" " " + arguments);
}

std::vector<CaseReport> Launcher::run_all(int ranks, const std::string& command,
                                          const std::vector<std::string>& cases) const {
  std::vector<CaseReport> reports(cases.size());
  for (std::size_t done = 0; done < cases.size();) {
    const std::size_t count = std::min(kCasesAtOnce, cases.size() - done);
    const fs::path report = under_.string() + "." + unique_name();
    fs::create_directories(report);
    std::ofstream file(report / "cases");
    for (std::size_t i = 0; i < count; ++i) file << cases[done + i] << '\n';
    file.close();
    const auto ended = run(ranks, command + " " + report.string() + " " + (report / "cases").string());
    const auto part = std::span(reports).subspan(done, count);
    const std::size_t begun = read_report(report, part, static_cast<std::size_t>(ranks));
    if (begun == 0) throw std::runtime_error("the driver did not even start: " + ended.output);
    part[begun - 1].front()["ended"] = std::to_string(ended.code);
    done += begun;
  }
  return reports;
}

}  // namespace rota::test
