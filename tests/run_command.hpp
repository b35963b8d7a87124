#pragma once

// Runs a program as a user does, from a test that looks at how it ends.

#include "test.hpp"

namespace rota::test {

/// How a program ended, and what it printed on both streams.
struct Ended {
  int code = -1;
  std::string output;
  double seconds = 0;
  friend std::ostream& operator<<(std::ostream& out, const Ended& ended) {
    return out << ended.code << ", and said:\n" << ended.output;
  }
};

/// It ended with that code, and printed that.
inline auto ends(const Matcher<int>& code, const Matcher<std::string>& output) {
  return AllOf(::testing::Field("code", &Ended::code, code),
               ::testing::Field("output", &Ended::output, output));
}

/// Runs a shell command, which must end by itself: see timeout(1). An mpirun in it has a directory of its own
/// for what it keeps while it runs: two that begin and end at the same time cannot share one.
inline Ended run_command(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  const TemporaryDirectory sessions;
  const std::string environment = "export OMPI_MCA_orte_tmpdir_base=" + sessions.path().string();
  FILE* pipe = popen((environment + "; { " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  Ended ended;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) ended.output.push_back(static_cast<char>(c));
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return ended;
}

}  // namespace rota::test
