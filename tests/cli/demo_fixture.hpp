#pragma once

// Runs the built programs as a user does, on small datasets.

#include <future>

#include "run_command.hpp"
#include "test.hpp"

namespace rota::test {

inline std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

/// A dataset of small files, and the programs that run over it.
class DemoTest : public ::testing::Test {
 protected:
  /// Makes a dataset of `samples` files, each of its own length and content.
  std::filesystem::path make_data(std::int64_t samples, const std::string& name = "data") {
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::string number = std::to_string(i);
      std::string content = name + number;
      content.append(static_cast<std::size_t>(i % 13), 'x');
      dir_.write((std::filesystem::path(name) / std::to_string(i % 7) / number).string(), content);
    }
    return path(name);
  }

  /// rescale_demo alone, that is, the whole demo.
  Ended demo(const std::string& arguments) {
    return run_command("timeout -k 5 150 " ROTA_PROGRAMS "/rescale_demo" " " + arguments);
  }

  /// One phase under mpirun. Each rank's process id is in pid.<rank>, its exit code in code.<rank>.
  Ended phase(int ranks, const std::string& arguments) {
    std::string body = "echo $$ > ";
    body += path("pid").string() + ".${OMPI_COMM_WORLD_RANK}; exec " ROTA_PROGRAMS "/rescale_demo" " --phase --data ";
    body += path("data").string() + " --checkpoint " + path("checkpoints").string();
    body += " --trace " + path("trace").string() + " " + arguments;
    return run_command("timeout -k 5 150 mpirun -n " + std::to_string(ranks) + " sh -c '" + body + "'");
  }
  std::future<Ended> start_phase(int ranks, const std::string& arguments) {
    return std::async(std::launch::async, [=, this] { return phase(ranks, arguments); });
  }

  /// The audit of the phases' trace.
  Ended audit(const std::string& arguments) {
    return run_command("timeout 60 " ROTA_PROGRAMS "/rota" " audit " + path("trace").string() + " " + arguments);
  }

  /// Waits until the trace file of phase 0 and `rank` has `lines` lines.
  void wait_for_lines(int rank, std::int64_t lines) {
    char name[64];
    std::snprintf(name, sizeof name, "phase-000000-rank-%05d.jsonl", rank);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = read_text(path("trace") / name);
      if (std::count(text.begin(), text.end(), '\n') >= lines) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "rank " << rank << " did not write " << lines << " lines";
  }

  /// Sends a signal to the process of one rank.
  void signal_rank(int rank, int signal) {
    ASSERT_EQ(::kill(std::stoi(read_text(path("pid." + std::to_string(rank)))), signal), 0);
  }

  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return dir_.path() / name; }

  [[nodiscard]] const TemporaryDirectory& dir() const { return dir_; }

 private:
  TemporaryDirectory dir_;
};

}  // namespace rota::test
