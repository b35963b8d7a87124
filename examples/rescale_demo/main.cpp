// rescale_demo: a run that moves between worlds, audited. With --phase it is the training program of that
// run, which mpirun starts; without, it starts the phases and judges them.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>

#include "cli/output.hpp"
#include "driver.hpp"
#include "options.hpp"
#include "phase.hpp"
#include "rota/error.hpp"
#include "rota/mpi.hpp"

namespace {

constexpr int kUsage = 2;

int run_phase(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  return session.run([&] {
    const rescale_demo::Command command = rescale_demo::parse_command(argc, argv);
    if (!command.help) return rescale_demo::run_phase(session.comm(), *command.phase);
    if (session.world().rank == 0) fmt::print("{}", *command.help);
    return 0;
  });
}

int run_alone(int argc, char** argv) {
  try {
    const rescale_demo::Command command = rescale_demo::parse_command(argc, argv);
    if (!command.help) return rescale_demo::run_demo(command.driver);
    fmt::print("{}", *command.help);
    return 0;
  } catch (const rota::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.code() == rota::ErrorCode::invalid_argument ? kUsage : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  const bool is_phase =
      std::ranges::any_of(words, [](const char* word) { return std::string_view(word) == "--phase"; });
  return rota::cli::run_with_output([&] { return is_phase ? run_phase(argc, argv) : run_alone(argc, argv); });
}
