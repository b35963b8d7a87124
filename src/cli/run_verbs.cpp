#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/audit.hpp"
#include "cli/audit_text.hpp"
#include "cli/inspect.hpp"
#include "cli/verbs.hpp"
#include "cli/verify.hpp"

namespace rota::cli {
namespace {

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

CLI::App& add_options(CLI::App& app, AuditCommand& audit) {
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
  return command;
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

}  // namespace

Verb add_audit(CLI::App& app) {
  const auto audit = std::make_shared<AuditCommand>();
  return {.command = &add_options(app, *audit), .run = [audit] { return run_audit(*audit); }};
}

Verb add_inspect(CLI::App& app) {
  const auto file = std::make_shared<std::filesystem::path>();
  CLI::App& command = *app.add_subcommand("inspect", "Verifies a checkpoint and lists what it holds.");
  command.add_option("FILE", *file, "a checkpoint, checkpoint-<serial>.h5")->required();
  return {.command = &command, .run = [file] {
            fmt::print("{}", inspect(*file));
            return 0;
          }};
}

Verb add_verify(CLI::App& app) {
  const auto path = std::make_shared<std::filesystem::path>();
  CLI::App& command = *app.add_subcommand("verify", kVerifyHelp);
  command.add_option("PATH", *path, "a checkpoint, or a directory of checkpoints")->required();
  return {.command = &command, .run = [path] { return verify(*path, stdout) ? 0 : kProblems; }};
}

}  // namespace rota::cli
