#include "driver.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/audit.hpp"
#include "dataset.hpp"
#include "launcher.hpp"
#include "phase.hpp"
#include "reference.hpp"
#include "rota/error.hpp"
#include "rota/world.hpp"
#include "table.hpp"

namespace rescale_demo {
namespace {

using rota::Error;
using rota::ErrorCode;
using rota::cli::AuditReport;

// Where a demo keeps its files. What it made itself goes with it, unless kept.
class Work {
 public:
  explicit Work(const std::optional<std::filesystem::path>& given) {
    if (given) {
      path_ = *given;
      refuse_used();
      std::error_code error;
      std::filesystem::create_directories(path_, error);
      if (!error) return;
      throw Error(ErrorCode::io, fmt::format("make --work {}: {}", path_.string(), error.message()));
    }
    std::string pattern = (temporary() / "rescale-demo-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw Error(ErrorCode::io,
                  fmt::format("make a directory {}: {}", pattern, std::generic_category().message(errno)));
    }
    path_ = pattern;
    is_temporary_ = true;
  }
  ~Work() {
    std::error_code ignored;
    if (is_temporary_ && !is_kept_) std::filesystem::remove_all(path_, ignored);
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void keep() { is_kept_ = true; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  [[nodiscard]] std::filesystem::path trace() const { return path_ / "trace"; }
  [[nodiscard]] std::filesystem::path reference() const { return path_ / "reference"; }

 private:
  static std::filesystem::path temporary() {
    std::error_code error;
    auto path = std::filesystem::temp_directory_path(error);
    if (!error) return path;
    throw Error(
        ErrorCode::io,
        fmt::format("find a place for temporary files: {}; set TMPDIR, or give --work DIR", error.message()));
  }
  void refuse_used() const {
    for (const auto& part : {checkpoints(), trace(), reference()}) {
      std::error_code ignored;
      if (!std::filesystem::exists(part, ignored)) continue;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--work {}: it holds a demo already ({}); name another directory, or remove it",
                              path_.string(), part.filename().string()));
    }
  }

  std::filesystem::path path_;
  bool is_temporary_ = false;
  bool is_kept_ = false;
};

void show(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// One that is to end by a kill.
void launch_to_be_killed(int ranks, const std::vector<std::string>& arguments,
                         const std::filesystem::path& log, std::chrono::seconds timeout) {
  try {
    launch(ranks, arguments, log, timeout);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) return;
    throw;
  }
  throw Error(ErrorCode::io, "it was to be killed, and ended by itself");
}

void run_phases(const DriverOptions& options, const Work& work) {
  for (std::size_t i = 0; i < options.worlds.size(); ++i) {
    const WorldOptions& world = options.worlds[i];
    const auto phase = static_cast<std::int64_t>(i);
    const auto summary = work.path() / fmt::format("phase-{}.summary", i);
    try {
      const auto arguments = phase_arguments(options.run, world, work.checkpoints(), work.trace(), summary);
      const auto log = work.path() / fmt::format("phase-{}.log", i);
      world.lost > 0 ? launch_to_be_killed(world.ranks, arguments, log, options.timeout)
                     : launch(world.ranks, arguments, log, options.timeout);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("phase {} ({} ranks x {} workers): {}", i, world.ranks,
                                            world.workers, error.what()));
    }
    show(world.lost > 0 ? killed_row(phase, world) : table_row(phase, world, read_summary(summary)));
  }
}

// The audit of the run, of the reference, and of one against the other.
AuditReport audit_all(const DriverOptions& options, const Work& work, std::vector<std::int64_t> samples) {
  const bool is_planned = samples.size() > 1;
  rota::cli::AuditOptions audit_options{.samples = std::move(samples)};
  if (!options.worlds.back().steps && !is_planned) audit_options.epochs = options.run.loader.epochs;
  AuditReport run = rota::cli::audit(work.trace(), audit_options);
  const AuditReport reference = rota::cli::audit(work.reference(), audit_options);
  compare(run, reference, "the reference run");
  return run;
}

void refuse_nesting() {
  if (rota::world_from_environment().size == 1) return;
  throw Error(
      ErrorCode::invalid_argument,
      "start the demo under a launcher: it starts mpirun itself; run it alone, or run one phase by --phase");
}

int run_in(const DriverOptions& options, const Work& work) {
  std::shared_ptr<const rota::Source> source = open_dataset(options.run, rota::Communicator());
  const std::int64_t samples = source->size();
  show(table_head(options, samples));
  prepare_mpi_environment();
  run_phases(options, work);
  const std::int64_t steps = run_reference(source, options, work.reference());
  std::vector<std::int64_t> sizes{samples};
  rota::Mixture mixture;
  if (const int datasets = options.worlds.back().datasets; datasets > 0) {
    mixture = mixture_of(source, options.run, datasets);
    sizes.clear();
    for (const rota::Mixture::Part& part : mixture.datasets) sizes.push_back(part.source->size());
  }
  const AuditReport report = audit_all(options, work, sizes);
  show(reference_row(steps, report.samples + report.padded) + "\n");
  if (!report.passed()) {
    show("FAILED:\n" + rota::cli::problem_text(report.problems));
    return 1;
  }
  if (options.run.datasets > 0) show(strip(options, mixture, report));
  show(proven(options, report, samples));
  return 0;
}

}  // namespace

int run_demo(const DriverOptions& options) {
  refuse_nesting();
  Work work(options.work);
  try {
    const int code = run_in(options, work);
    if (code != 0) work.keep();
    if (code != 0 || options.work)
      show(fmt::format("checkpoints and traces are in {}\n", work.path().string()));
    return code;
  } catch (const std::exception&) {
    std::error_code ignored;
    if (std::filesystem::exists(work.trace(), ignored) ||
        std::filesystem::exists(work.checkpoints(), ignored)) {
      work.keep();
      fmt::print(stderr, "checkpoints and traces are in {}\n", work.path().string());
    }
    throw;
  }
}

}  // namespace rescale_demo
