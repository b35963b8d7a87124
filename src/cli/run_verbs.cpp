#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/audit.hpp"
#include "cli/audit_text.hpp"
#include "cli/inspect.hpp"
#include "cli/stream_audit.hpp"
#include "cli/verbs.hpp"
#include "cli/verify.hpp"

namespace rota::cli {
namespace {

constexpr const char* kAuditHelp =
    "Audits the traces (*.jsonl) in DIR: each sample exactly once per epoch, ranks in lockstep, equal "
    "slices, "
    "one content per sample. Batches at or after the place from which a later phase resumed were rolled back "
    "and do not count; an unterminated last line is ignored. With --stream, traces of streams: each sample "
    "of a "
    "shard exactly once per epoch and in order, ranks in lockstep, whole shards. Exit code 0: all held, 1: "
    "it did not, 2: usage.";

struct AuditCommand {
  std::filesystem::path dir;
  bool is_stream = false;
  std::optional<std::int64_t> samples;
  std::optional<std::filesystem::path> same_as;
  rota::tracing::AuditOptions options;
};

CLI::App& add_options(CLI::App& app, AuditCommand& audit) {
  CLI::App& command = *app.add_subcommand("audit", kAuditHelp);
  command.add_option("DIR", audit.dir, "directory of the trace files")->required();
  command
      .add_option(
          "--samples", audit.samples,
          "N, the samples of the dataset; of a stream it need not be given, but that nothing is missing "
          "at the end of its shards is only found with it, or with --same-as")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* stream = command.add_flag("--stream", audit.is_stream, "the traces are of streams");
  command
      .add_option(
          "--batch", audit.options.batch,
          "the global batch size, which at least one phase must have; each phase is held to the size in "
          "its own start record, for it may change when a run resumes, and `drop` may leave out less "
          "than that per epoch")
      ->check(CLI::PositiveNumber)
      ->excludes(stream);
  command
      .add_option("--epochs", audit.options.epochs, "the run must have ended after exactly so many epochs")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--complete", audit.options.complete, "the last epoch must be complete, not in progress");
  command
      .add_flag("--running", audit.options.running,
                "the last phase may still be writing: look at the batches that all its ranks have")
      ->excludes(stream);
  command.add_option("--same-as", audit.same_as, "another trace, which must have the same global batches");
  return command;
}

// An audit, compared with that of another trace, where there is one.
template <typename Audit>
auto compared(const AuditCommand& command, const Audit& audit) {
  auto report = audit(command.dir);
  if (!command.same_as) return report;
  const auto other = audit(*command.same_as);
  for (rota::tracing::Problem problem : other.problems) {
    problem.text += fmt::format(" (in {})", command.same_as->string());
    report.problems.push_back(std::move(problem));
  }
  compare(report, other, *command.same_as);
  return report;
}

int run_stream_audit(const AuditCommand& command) {
  const rota::tracing::StreamAuditOptions options{
      .samples = command.samples, .epochs = command.options.epochs, .complete = command.options.complete};
  const auto report = compared(
      command, [&](const std::filesystem::path& dir) { return rota::tracing::audit_streams(dir, options); });
  fmt::print("{}", stream_audit_text(report, command.dir));
  if (!report.passed()) return kProblems;
  if (command.same_as)
    fmt::print("passed: the same samples of each shard as {}\n", command.same_as->string());
  return 0;
}

int run_audit(AuditCommand& audit) {
  if (audit.is_stream) return run_stream_audit(audit);
  if (!audit.samples) {
    fmt::print(stderr, "--samples is required, but for streams\nRun with --help for more information.\n");
    return kUsage;
  }
  audit.options.samples = *audit.samples;
  const auto report = compared(
      audit, [&](const std::filesystem::path& dir) { return rota::tracing::audit(dir, audit.options); });
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
