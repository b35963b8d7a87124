#pragma once

// Runs the built programs as a user does.

#include <future>

#include "run_command.hpp"

namespace rota::test {

/// A directory, in which commands run.
class ProgramTest : public Test {
 protected:
  Ended run(const std::string& command) const {
    return run_command("cd " + dir_.path().string() + " && { " + command + "; }");
  }
  static std::string rota_command(const std::string& arguments) {
    return "timeout 60 " ROTA_PROGRAMS "/rota " + arguments;
  }
  Ended rota(const std::string& arguments) const { return run(rota_command(arguments)); }
  void expect_says(const std::string& arguments, int code, const Matcher<std::string>& output) const {
    EXPECT_THAT(rota(arguments), ends(code, output)) << arguments;
  }

  std::string write(std::string_view name, std::string_view text) const {
    return dir_.write(name, text).string();
  }
  std::string path(std::string_view name) const { return (dir_ / name).string(); }

  TemporaryDirectory dir_;
};

/// A dataset of small files, and the demo that runs over it.
class DemoTest : public ProgramTest {
 protected:
  /// Makes data/, of `samples` files, each of its own length and content.
  void make_data(int samples) const {
    for (int i = 0; i < samples; ++i) {
      write(fmt::format("data/{}/{}", i % 7, i), fmt::format("data{}{:x<{}}", i, "", i % 13));
    }
  }

  /// rescale_demo alone, that is, the whole demo.
  Ended demo(const std::string& arguments) const {
    return run("timeout -k 5 150 " ROTA_PROGRAMS "/rescale_demo " + arguments);
  }
  /// The demo of so many samples succeeds, and says so.
  void expect_proven(int samples, const std::string& options, const std::string& says) const {
    make_data(samples);
    EXPECT_THAT(demo("--data data " + options), ends(0, HasSubstr(says))) << options;
  }

  /// One phase of it on each rank, which leaves the id of its process in pid.<rank>.
  Ended phase(int ranks, const std::string& arguments) const {
    return run(fmt::format(
        "timeout -k 5 150 mpirun -n {} sh -c 'echo $$ > pid.${{OMPI_COMM_WORLD_RANK}}; exec \"$@\"' - {} {}",
        ranks, kPhase, arguments));
  }
  std::future<Ended> start_phase(int ranks, const std::string& arguments) const {
    return std::async(std::launch::async, [=, this] { return phase(ranks, arguments); });
  }

  /// Waits until the trace file of phase 0 and `rank` has `lines` lines.
  void wait_for_lines(int rank, std::int64_t lines) const {
    const auto file = dir_ / fmt::format("trace/phase-000000-rank-{:05}.jsonl", rank);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = read_file(file);
      if (std::count(text.begin(), text.end(), '\n') >= lines) return;
      std::this_thread::sleep_for(5ms);
    }
    FAIL() << "rank " << rank << " did not write " << lines << " lines";
  }

  static constexpr const char* kPhase =
      ROTA_PROGRAMS "/rescale_demo --phase --data data --checkpoint checkpoints --trace trace";
};

}  // namespace rota::test
