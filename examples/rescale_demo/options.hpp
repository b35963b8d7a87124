#pragma once

// What the demo is asked to do, as read from its command line.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rota/loader.hpp"
#include "rota/windows.hpp"

namespace rescale_demo {

/// What both ways to run share: the dataset, and how it is ordered and cut.
struct RunOptions {
  std::filesystem::path data = "/usr/include";
  std::string format = "auto";
  std::optional<std::int64_t> pack_length;    ///< pack ragged samples into sequences of so many elements
  std::optional<rota::WindowOptions> window;  ///< then cut all that into windows
  rota::LoaderOptions loader{.global_batch_size = 64, .epochs = 3};
  int datasets = 0;  ///< with a plan: how many parts of the data are mixed; else 0
};

/// One phase: one start of a training program, on all ranks of an MPI job.
struct PhaseOptions {
  RunOptions run;
  std::filesystem::path checkpoint;
  bool resume = false;
  std::optional<std::int64_t> stop_after;
  std::optional<std::int64_t> lost;  ///< ends by SIGKILL so many steps after its save
  std::optional<std::int64_t> save_every;
  std::optional<std::filesystem::path> trace;
  std::optional<std::filesystem::path> summary;  ///< a file for what it did, in figures
};

/// A world that the demo moves the run to.
struct WorldOptions {
  int ranks = 1;
  int workers = 0;
  std::int64_t batch = 0;
  std::optional<std::int64_t> steps;  ///< nothing: to the end of the epochs
  std::int64_t lost = 0;              ///< steps after the save, which a kill undoes
  int datasets = 0;                   ///< with a plan
};

/// The whole demo: a run that moves from world to world.
struct DriverOptions {
  RunOptions run;
  std::vector<WorldOptions> worlds;
  std::optional<std::filesystem::path> work;
  std::chrono::seconds timeout{600};  ///< for each phase
};

/// What one command line asks for.
struct Command {
  std::optional<std::string> help;  ///< print it and do nothing else
  std::optional<PhaseOptions> phase;
  DriverOptions driver;
};

/// Reads the command line. Throws rota::Error{invalid_argument} that names the option and what it may be.
Command parse_command(int argc, char** argv);

/// `RANKSxWORKERS[@BATCH][+DATASETS][:STEPS[!LOST]]`, joined by commas; BATCH is `batch` where it is left
/// out, and DATASETS what it was before. Throws rota::Error{invalid_argument}.
std::vector<WorldOptions> parse_worlds(const std::string& text, std::int64_t batch);

/// The command line, without the program, of one phase that resumes in `world`.
std::vector<std::string> phase_arguments(const RunOptions& run, const WorldOptions& world,
                                         const std::filesystem::path& checkpoint,
                                         const std::filesystem::path& trace,
                                         const std::filesystem::path& summary);

}  // namespace rescale_demo
