#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/audit.hpp"
#include "cli/audit_text.hpp"
#include "cli/inspect.hpp"
#include "cli/number_option.hpp"
#include "cli/verbs.hpp"
#include "cli/verify.hpp"

namespace rota::cli {
namespace {

constexpr std::int64_t kMostSamples = std::int64_t{1} << 61;  // as traces may say
constexpr int kMostDatasets = 4096;

constexpr const char* kAuditHelp =
    "Audits the traces (*.jsonl) in DIR, of a Loader or a StreamLoader: each sample exactly once per epoch, "
    "ranks in lockstep, equal slices where ranks do not read whole shards, one content per sample; of a "
    "stream, the samples of each shard in order. "
    "Batches at or after the step from which a later phase resumed were rolled back and do not count; an "
    "unterminated last line is ignored. Exit code 0: all held, 1: it did not, 2: usage.";

struct AuditCommand {
  std::filesystem::path dir;
  std::optional<std::filesystem::path> same_as;
  rota::trace::AuditOptions options;
};

CLI::App& add_options(CLI::App& app, AuditCommand& audit) {
  CLI::App& command = *app.add_subcommand("audit", kAuditHelp);
  command.add_option("DIR", audit.dir, "directory of the trace files")->required();
  command
      .add_option_function<std::vector<std::string>>(
          "--samples",
          [&audit](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              audit.options.samples.push_back(parse_number("--samples", text, 0, kMostSamples));
            }
          },
          "N, the samples of the dataset, N,M,... of those of a mixture; of a stream, those of an epoch. "
          "Left out, "
          "it is what the trace says, which proves less; and of a stream, nothing is known then of the ends "
          "of its "
          "shards")
      ->delimiter(',')
      ->expected(1, kMostDatasets)
      ->type_name("INT,...");
  add_number(command, "--batch", audit.options.batch, 1,
             "the global batch size, which at least one phase must have; each phase is held to the size in "
             "its own start record, for it may change when a run resumes, and `drop` may leave out less "
             "than that per epoch");
  add_number(command, "--epochs", audit.options.epochs, 0,
             "the run must have ended after exactly so many epochs");
  command.add_flag("--complete", audit.options.complete, "the last epoch must be complete, not in progress");
  command.add_flag(
      "--running", audit.options.running,
      "the last phase was killed, or is still writing: look at the batches that all its ranks have");
  command.add_option(
      "--same-as", audit.same_as,
      "another trace, which must have the same global batches; of a stream, the same samples of "
      "each shard");
  return command;
}

// An audit, compared with that of another trace, where there is one.
rota::trace::AuditReport compared(const AuditCommand& command) {
  auto report = rota::trace::audit(command.dir, command.options);
  if (!command.same_as) return report;
  const auto other = rota::trace::audit(*command.same_as, command.options);
  for (rota::trace::Problem problem : other.problems) {
    problem.text += fmt::format(" (in {})", command.same_as->string());
    report.problems.push_back(std::move(problem));
  }
  compare(report, other, *command.same_as);
  return report;
}

int run_audit(const AuditCommand& command) {
  const auto report = compared(command);
  // Of a Loader, another trace may be as wrong of the number as this one.
  const bool is_stream = !report.phases.empty() && report.phases.front().start.is_stream();
  const bool knows_samples = !command.options.samples.empty() || (command.same_as && is_stream);
  fmt::print("{}", audit_text(report, command.dir, knows_samples));
  if (!report.passed()) return kProblems;
  if (command.same_as) {
    fmt::print("passed: the same {} as {}\n",
               report.shards.empty() ? "global batches" : "samples of each shard", command.same_as->string());
  }
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
