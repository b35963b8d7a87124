// `rota audit`: audits the traces of a run.

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/audit.hpp"
#include "cli/options.hpp"
#include "cli/verbs.hpp"

namespace rota::cli {
namespace {

constexpr int kMostDatasets = 4096;

constexpr const char* kAuditHelp =
    "Audits the traces (*.jsonl) in DIR: each sample exactly once per epoch, "
    "ranks in lockstep, equal slices where ranks do not read whole shards, one content per sample; of a "
    "stream, "
    "the samples of each shard in order. Batches at or after the step from which a later phase resumed were "
    "rolled back and do not count; an unterminated last line is ignored. Exit code 0: all held, 1: it did "
    "not, "
    "2: usage.";

struct AuditCommand {
  std::filesystem::path dir;
  std::optional<std::filesystem::path> same_as;
  AuditOptions options;
};

CLI::App& add_options(CLI::App& app, AuditCommand& audit) {
  CLI::App& command = *app.add_subcommand("audit", kAuditHelp);
  command.add_option("DIR", audit.dir, "directory of the trace files")->required();
  const auto add_samples = [&audit](const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      audit.options.samples.push_back(parse_number("--samples", text, 0, trace::kMaxTraced));
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--samples", add_samples,
          "N, the samples of the dataset, N,M,... of those of a mixture; of a stream, those of an epoch. "
          "Left "
          "out, it is what the trace says, which proves less; and of a stream, nothing is known then of the "
          "ends of its shards")
      ->delimiter(',')
      ->expected(1, kMostDatasets)
      ->type_name("INT,...");
  add_number(command, "--batch", audit.options.batch, 1,
             "the global batch size, which at least one phase must have; each phase is held to its own");
  add_number(command, "--epochs", audit.options.epochs, 0,
             "the run must have ended after exactly so many epochs");
  command.add_flag("--complete", audit.options.complete, "the last epoch must be complete, not in progress");
  command.add_flag("--running", audit.options.running,
                   "the last phase was killed, or still writes: look at the batches that all its ranks have");
  command.add_option(
      "--same-as", audit.same_as,
      "another trace, with the same global batches; of a stream, the same samples of each shard");
  return command;
}

int run_audit(const AuditCommand& command) {
  AuditReport report = audit(require_on_disk(command.dir), command.options);
  if (command.same_as)
    compare(report, audit(require_on_disk(*command.same_as), command.options), command.same_as->string());
  // Of a Loader, another trace may be as wrong of the number as this one.
  const bool is_stream = !report.phases.empty() && report.phases.front().start.is_stream();
  const bool knows_samples = !command.options.samples.empty() || (command.same_as && is_stream);
  fmt::print("{}", audit_text(report, command.dir, knows_samples));
  if (!report.passed()) return kProblems;
  if (command.same_as) {
    fmt::print("passed: the same {} as {}\n", is_stream ? "samples of each shard" : "global batches",
               command.same_as->string());
  }
  return 0;
}

}  // namespace

Verb add_audit(CLI::App& app) {
  const auto audit = std::make_shared<AuditCommand>();
  return {.command = &add_options(app, *audit), .run = [audit] { return run_audit(*audit); }};
}

}  // namespace rota::cli
