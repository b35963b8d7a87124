#include "table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "cli/output.hpp"

namespace rescale_demo {
namespace {

using rota::cli::counted;
using rota::cli::grouped;

constexpr const char* kRow = "{:>9}  {:>15}  {:>7}  {:>8}  {:>12}  {:>10}  {:>10}\n";

std::string milliseconds(double seconds) {
  return seconds > 0 ? fmt::format("{:.1f} ms", 1e3 * seconds) : "-";
}

// What was left out or is missing to the whole, where there is any.
std::string exceptions(const rota::cli::AuditReport& run, std::int64_t samples) {
  std::string text;
  if (run.end.consumed > 0) {
    text += fmt::format(", and {} of {} samples of epoch {}, where it was to stop", grouped(run.end.consumed),
                        grouped(samples), run.end.epoch);
  }
  if (run.dropped > 0) text += fmt::format(" ({} left out by tail drop)", counted(run.dropped, "sample"));
  if (run.padded > 0) text += fmt::format(" (and {} of marked padding)", counted(run.padded, "slot"));
  if (run.skipped > 0) text += fmt::format(" ({} skipped)", counted(run.skipped, "sample"));
  return text;
}

}  // namespace

std::string table_head(const DriverOptions& options, std::int64_t samples) {
  const rota::LoaderOptions& loader = options.run.loader;
  std::string text = fmt::format("{}: {}, {}, {}, shuffle {}, tail {}, seed {}\n\n",
                                 options.run.data.string(), counted(samples, "sample"),
                                 counted(loader.epochs, "epoch"), counted(loader.shards, "logical shard"),
                                 to_string(loader.shuffle), to_string(loader.tail), loader.seed);
  return text + fmt::format(kRow, "phase", "ranks x workers", "batch", "steps", "samples", "restore", "save");
}

std::string table_row(std::int64_t phase, const WorldOptions& world, const PhaseSummary& summary) {
  return fmt::format(kRow, phase, fmt::format("{} x {}", world.ranks, world.workers), grouped(world.batch),
                     grouped(summary.steps), grouped(summary.samples), milliseconds(summary.restore_seconds),
                     milliseconds(summary.save_seconds));
}

std::string reference_row(std::int64_t steps, std::int64_t samples) {
  return fmt::format(kRow, "reference", "1 rank, no stop", "same", grouped(steps), grouped(samples), "-",
                     "-");
}

std::string proven(const DriverOptions& options, const rota::cli::AuditReport& run, std::int64_t samples) {
  std::vector<int> ranks;
  for (const WorldOptions& world : options.worlds) ranks.push_back(world.ranks);
  const bool is_single = ranks.size() == 1 && ranks.front() == 1;
  return fmt::format(
      "PROVEN: {} x {}{}, each delivered exactly once, in lockstep, by {} rank{}; its {} global batch{} are, "
      "sample for "
      "sample and byte for byte, those of an uninterrupted run at one rank.\n",
      counted(run.end.epoch, "epoch"), counted(samples, "sample"), exceptions(run, samples),
      fmt::join(ranks, " -> "), is_single ? "" : "s", grouped(static_cast<std::int64_t>(run.batches.size())),
      run.batches.size() == 1 ? "" : "es");
}

}  // namespace rescale_demo
