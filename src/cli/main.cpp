// `rota`: looks at what runs leave behind, their traces and checkpoints.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/audit.hpp"
#include "cli/audit_text.hpp"
#include "cli/inspect.hpp"
#include "cli/verify.hpp"

namespace {

constexpr int kProblems = 1;
constexpr int kUsage = 2;

constexpr const char* kAuditHelp =
    "Audits the traces (*.jsonl) in DIR: each sample exactly once per epoch, ranks in lockstep, equal "
    "slices, "
    "one content per sample. Batches at or after the place from which a later phase resumed were rolled back "
    "and do not count; an unterminated last line is ignored. Exit code 0: all held, 1: it did not, 2: usage.";

struct AuditCommand {
  std::filesystem::path dir;
  std::optional<std::filesystem::path> same_as;
  rota::tracing::AuditOptions options;
};

void add_audit(CLI::App& app, AuditCommand& audit) {
  CLI::App& command = *app.add_subcommand("audit", kAuditHelp);
  command.add_option("DIR", audit.dir, "directory of the trace files")->required();
  command.add_option("--samples", audit.options.samples, "N, the samples of the dataset")
      ->required()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option(
          "--batch", audit.options.batch,
          "the global batch size, which at least one phase must have; each phase is held to the size in "
          "its own start record, for it may change when a run resumes, and `drop` may leave out less "
          "than that per epoch")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--epochs", audit.options.epochs, "the run must have ended after exactly so many epochs")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--complete", audit.options.complete, "the last epoch must be complete, not in progress");
  command.add_flag("--running", audit.options.running,
                   "the last phase may still be writing: look at the batches that all its ranks have");
  command.add_option("--same-as", audit.same_as, "another trace, which must have the same global batches");
}

int run_audit(const AuditCommand& audit) {
  using rota::tracing::AuditReport;
  AuditReport report = rota::tracing::audit(audit.dir, audit.options);
  if (audit.same_as) {
    const AuditReport other = rota::tracing::audit(*audit.same_as, audit.options);
    for (rota::tracing::Problem problem : other.problems) {
      problem.text += fmt::format(" (in {})", audit.same_as->string());
      report.problems.push_back(std::move(problem));
    }
    compare(report, other, *audit.same_as);
  }
  fmt::print("{}", audit_text(report, audit.dir, audit.options.samples));
  if (!report.passed()) return kProblems;
  if (audit.same_as) fmt::print("passed: the same global batches as {}\n", audit.same_as->string());
  return 0;
}

constexpr const char* kVerifyHelp =
    "Verifies every byte of a checkpoint, or of all in a directory, newest first, and lists all that is "
    "damaged, temporaries of saves, and what a restore would take. Exit code 0: all is good, 1: it is not, "
    "or "
    "nothing is there, 2: usage.";

int run(int argc, char** argv) {
  CLI::App app("rota: looks at what training runs leave behind, their traces and checkpoints.", "rota");
  app.set_version_flag("--version", std::string("rota ") + ROTA_VERSION);
  app.require_subcommand(1);
  AuditCommand audit;
  add_audit(app, audit);
  std::filesystem::path checkpoint;
  CLI::App& inspect = *app.add_subcommand("inspect", "Verifies a checkpoint and lists what it holds.");
  inspect.add_option("FILE", checkpoint, "a checkpoint, checkpoint-<serial>.h5")->required();
  std::filesystem::path suspect;
  CLI::App& verify = *app.add_subcommand("verify", kVerifyHelp);
  verify.add_option("PATH", suspect, "a checkpoint, or a directory of checkpoints")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (app.got_subcommand(&inspect)) {
    fmt::print("{}", rota::cli::inspect(checkpoint));
    return 0;
  }
  if (app.got_subcommand(&verify)) return rota::cli::verify(suspect, stdout) ? 0 : kProblems;
  return run_audit(audit);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kProblems;
  }
}
