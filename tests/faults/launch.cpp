#include "launch.hpp"

#include <future>

namespace rota::test {

std::string said(const Said& by_rank, const std::string& what) {
  const auto found = by_rank.find(what);
  return found == by_rank.end() ? "(nothing)" : found->second;
}

Launched launch(const std::string& job, int ranks, const std::vector<std::string>& cases, int seconds,
                const std::string& environment) {
  const TemporaryDirectory report;
  report.write("cases", fmt::format("{}\n", fmt::join(cases, "\n")));
  Launched launched;
  launched.ended =
      run_command(fmt::format("OMPI_MCA_odls_base_sigkill_timeout=0 timeout -k 5 {} " ROTA_MPIEXEC
                              " {} env {} " ROTA_PROGRAMS "/test_child job {} {}",
                              seconds, ranks, environment, job, report.path().string()));
  launched.hung = launched.ended.code == 124 || launched.ended.seconds >= seconds;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ifstream in(report / std::to_string(rank));
    std::string number;
    std::string what;
    std::string text;
    while (std::getline(in, number, '\t') && std::getline(in, what, '\t') && std::getline(in, text)) {
      const std::size_t index = std::stoul(number);
      while (launched.cases.size() <= index) launched.cases.emplace_back(static_cast<std::size_t>(ranks));
      launched.cases[index][static_cast<std::size_t>(rank)][what] = text;
    }
  }
  return launched;
}

TemporaryDirectory make_fast_directory() {
  if (::access("/dev/shm", W_OK | X_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  return {};
}

std::string interposed_below(const fs::path& directory) {
  // LD_PRELOAD takes no path with a space.
  return "LD_LIBRARY_PATH='" ROTA_FAULTS_FOLDER
         "':\"$LD_LIBRARY_PATH\" LD_PRELOAD=librota_faults.so ROTA_FAULTS_UNDER=" +
         directory.string();
}

void do_at_once(std::size_t workers, std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::future<void>> all(workers);
  for (auto& one : all) {
    one = std::async(std::launch::async, [&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    });
  }
  for (auto& one : all) one.get();
}

}  // namespace rota::test
