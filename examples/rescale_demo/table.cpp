#include "table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "dataset.hpp"
#include "rota/run.hpp"

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
  return fmt::format(kRow, phase, fmt::format("{} x {}", world.ranks, world.workers),
                     world.datasets > 0 ? "plan" : grouped(world.batch), grouped(summary.steps),
                     grouped(summary.samples), milliseconds(summary.restore_seconds),
                     milliseconds(summary.save_seconds));
}

std::string killed_row(std::int64_t phase, const WorldOptions& world) {
  return fmt::format(kRow, phase, fmt::format("{} x {}", world.ranks, world.workers), "plan",
                     grouped(world.steps.value_or(0)), fmt::format("{} lost", counted(world.lost, "step")),
                     "-", "killed");
}

namespace {

// A label where a value begins, and a line as long as it stays.
std::string segments(const std::vector<std::string>& values) {
  std::string text;
  std::size_t shown = 0;  // columns
  for (std::size_t column = 0; column < values.size(); ++column) {
    const bool is_new = column == 0 || values[column] != values[column - 1];
    if (is_new && shown <= column) {
      text += values[column];
      shown = column + values[column].size();
    }
    if (shown <= column) {
      text += "\u2500";
      ++shown;
    }
  }
  return text;
}

}  // namespace

std::string strip(const DriverOptions& options, const rota::Mixture& mixture,
                  const rota::cli::AuditReport& run) {
  constexpr std::int64_t kColumns = 64;
  constexpr std::array kShares{" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                               "\u2585", "\u2586", "\u2587", "\u2588"};
  rota::RunOptions how = options.run.loader.run();
  std::vector<rota::RunData> data;
  std::int64_t samples = 0;
  for (const rota::Mixture::Part& part : mixture.datasets) {
    data.push_back({.samples = part.source->size(), .name = part.name});
    how.weights.push_back(part.weight);
    samples += part.source->size();
  }
  how.plan = plan_of(samples, options.run, static_cast<int>(data.size()));
  how.end = mixture.end;
  const rota::Run begun(data, how);
  const auto steps = run.batches.empty() ? 0 : run.batches.back().first.step + 1;
  std::vector<std::string> ranks;
  std::vector<std::string> batches;
  std::vector<std::string> shares(data.size());
  std::string left_out;
  for (std::int64_t column = 0; column < std::min(kColumns, steps); ++column) {
    const std::int64_t step = column * steps / std::min(kColumns, steps);
    const auto at = begun.at(step);
    if (!at) break;
    int size = 0;  // of the last phase that has it
    for (const auto& phase : run.phases) size = phase.start.from.step <= step ? phase.start.world.size : size;
    ranks.push_back(std::to_string(size));
    batches.push_back(std::to_string(at->global_batch_size()));
    rota::RunSlice slice;
    static_cast<void>(at->slice(slice, {.size = rota::kMaxBatchSize}));
    left_out += slice.start.step == step ? " " : "x";
    const std::vector<std::int64_t>& weights = at->mixture()->weights;
    const std::int64_t sum = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
    for (std::size_t d = 0; d < data.size(); ++d)
      shares[d] += kShares[static_cast<std::size_t>((8 * weights[d] + sum - 1) / sum)];
  }
  constexpr const char* kLine = "  {:<9} {}\n";
  std::string text =
      fmt::format(kLine, "ranks", segments(ranks)) + fmt::format(kLine, "batch", segments(batches));
  for (std::size_t d = 0; d < data.size(); ++d) text += fmt::format(kLine, data[d].name, shares[d]);
  return text + fmt::format(kLine, "left out", left_out) +
         fmt::format("  {:<9} step 0 to {}; bars are shares of the datasets\n\n", "", grouped(steps - 1));
}

std::string reference_row(std::int64_t steps, std::int64_t samples) {
  return fmt::format(kRow, "reference", "1 rank, no stop", "same", grouped(steps), grouped(samples), "-",
                     "-");
}

std::string proven(const DriverOptions& options, const rota::cli::AuditReport& run, std::int64_t samples) {
  std::vector<int> ranks;
  for (const WorldOptions& world : options.worlds) ranks.push_back(world.ranks);
  const bool is_single = ranks.size() == 1 && ranks.front() == 1;
  if (options.run.datasets > 0) {
    return fmt::format(
        "PROVEN: {} of {} datasets, {} of them left out by the plan, each delivered as often as its epochs "
        "say, in "
        "lockstep, by {} ranks, a kill and {} stages; the {} global batches are, sample for sample and byte "
        "for byte, "
        "those of an uninterrupted run at one rank.\n",
        counted(run.samples, "sample"), run.datasets.size(), grouped(run.skipped), fmt::join(ranks, " -> "),
        options.worlds.back().datasets, grouped(static_cast<std::int64_t>(run.batches.size())));
  }
  return fmt::format(
      "PROVEN: {} x {}{}, each delivered exactly once, in lockstep, by {} rank{}; its {} global batch{} are, "
      "sample for "
      "sample and byte for byte, those of an uninterrupted run at one rank.\n",
      counted(run.end.epoch, "epoch"), counted(samples, "sample"), exceptions(run, samples),
      fmt::join(ranks, " -> "), is_single ? "" : "s", grouped(static_cast<std::int64_t>(run.batches.size())),
      run.batches.size() == 1 ? "" : "es");
}

}  // namespace rescale_demo
