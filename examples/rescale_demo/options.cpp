#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <string_view>

#include "cli/verbs.hpp"
#include "rota/error.hpp"

namespace rescale_demo {
namespace {

using rota::cli::add_number;

constexpr const char* kAbout =
    "Shows that a run can move between worlds of any number of ranks and workers, and still deliver each "
    "sample "
    "of every epoch exactly once, in the same global batches as a run that was never interrupted.";
constexpr std::int64_t kMost = std::numeric_limits<int>::max();
constexpr std::int64_t kMostSeconds = 1'000'000'000;
constexpr const char* kWorlds = "3x2:60,5x1@50:60,2x2";
constexpr const char* kPlannedWorlds = "8x1:30,7x1:25!6,13x1+3:150,1x2";
constexpr int kMostDatasets = 3;  // of which two begin

[[noreturn]] void refuse(const std::string& message) {
  throw rota::Error(rota::ErrorCode::invalid_argument, message);
}

// What the command line says, before it is understood.
struct Words {
  bool is_phase = false;
  std::string shuffle = "global";
  std::string tail = "partial";
  std::string rank_split = "by_sample";
  std::string worker_split = "by_sample";
  std::optional<std::string> window;
  std::string worlds = {};
  bool is_planned = false;
  std::int64_t timeout_seconds = 600;
  PhaseOptions phase;
  std::optional<std::filesystem::path> work;
};

void add_run(CLI::App& app, Words& words) {
  RunOptions& run = words.phase.run;
  app.add_option("--data", run.data, "directory, file or glob of the dataset")->capture_default_str();
  app.add_option("--format", run.format,
                 "auto, or one that rota::open knows: files, hdf5, tar, tfrecord, lines, npy, npz, tokens, "
                 "megatron, mds")
      ->capture_default_str();
  add_number(app, "--pack", run.pack_length, 1,
             "pack the samples, which have one ragged field of integers, into sequences of this length");
  app.add_option("--window", words.window,
                 "LENGTH[:STRIDE]: samples are windows of so many of those, one at every STRIDE-th");
  run.loader.shards = 256;
  add_number(app, "--shards", run.loader.shards, 1, "L, the logical shards");
  add_number(app, "--interleave", run.loader.interleave, 0, "G, shards consumed at a time; 0: all");
  add_number(app, "--batch", run.loader.global_batch_size, 1, "B, samples per step over all ranks");
  app.add_option("--shuffle", words.shuffle, "none, within, global or block")->capture_default_str();
  app.add_option("--tail", words.tail, "partial, carry, drop or pad")->capture_default_str();
  app.add_option("--rank-split", words.rank_split,
                 "by_sample, by_shard or interleaved: what of a batch a rank reads")
      ->capture_default_str();
  app.add_option("--worker-split", words.worker_split, "the same for the workers of a rank")
      ->capture_default_str();
  add_number(app, "--seed", run.loader.seed, 0, "of the shuffle");
  add_number(app, "--epochs", run.loader.epochs, 1, "passes over the dataset");
  add_number(app, "--datasets", run.datasets, 0,
             "parts of the data that are mixed by a plan; the demo sets it", kMostDatasets);
}

void add_driver(CLI::App& app, Words& words, CLI::Option* phase) {
  constexpr const char* kGroup = "The whole demo";
  const auto add = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group(kGroup)->excludes(phase);
  };
  add("--worlds", words.worlds,
      "RANKSxWORKERS[@BATCH][+DATASETS][:STEPS[!LOST]], joined by commas: where the run goes, one after the "
      "other; LOST steps behind the save are undone by a kill")
      ->default_str(fmt::format("{}, or with --plan {}", kWorlds, kPlannedWorlds));
  app.add_flag(
         "--plan", words.is_planned,
         "mix parts of the data, by stages with other batches and weights; a third one comes in mid-run, and "
         "50 steps are left out")
      ->group(kGroup)
      ->excludes(phase);
  add("--work", words.work, "directory for checkpoints and traces, kept; default: a temporary one");
  add_number(app, "--timeout", words.timeout_seconds, 1, "seconds that a phase may take", kMostSeconds)
      .group(kGroup)
      ->excludes(phase);
}

void add_phase(CLI::App& app, Words& words, CLI::Option* phase) {
  constexpr const char* kGroup = "One phase, under mpirun";
  const auto add = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group(kGroup)->needs(phase);
  };
  phase->group(kGroup);
  PhaseOptions& options = words.phase;
  add("--checkpoint", options.checkpoint, "directory of the checkpoints");
  app.add_flag("--resume", options.resume, "go on from the latest good checkpoint, if there is one")
      ->group(kGroup)
      ->needs(phase);
  const auto add_count = [&](const char* name, auto& value, std::int64_t least, const char* text) {
    add_number(app, name, value, least, text, kMost).group(kGroup)->needs(phase);
  };
  add_count("--workers", options.run.loader.workers, 0, "reading threads per rank; 0: none");
  add_count("--stop-after", options.stop_after, 1,
            "save and stop after so many steps; default: run to the end");
  add_count("--lose", options.lost, 1, "end by SIGKILL so many steps after that save");
  add_count("--save-every", options.save_every, 1, "save after every so many steps as well");
  add("--trace", options.trace, "directory for the trace of what was delivered");
  add("--summary", options.summary, "file for steps, samples, seconds of the restore and of the last save");
}

// Takes a number, 0 or more, off the front of `text`.
std::int64_t take_number(std::string_view& text, const std::string& misread) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) refuse(misread);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

WorldOptions parse_world(const std::string& text, std::int64_t batch) {
  std::string_view rest = text;
  const auto misread = fmt::format(
      "--worlds: \"{}\" is not RANKSxWORKERS[@BATCH][+DATASETS][:STEPS[!LOST]], such as 4x2 or 3x1@50:40",
      text);
  WorldOptions world{.batch = batch, .steps = std::nullopt};
  const std::int64_t ranks = take_number(rest, misread);
  const std::int64_t workers = take(rest, 'x') ? take_number(rest, misread) : -1;
  if (take(rest, '@')) world.batch = take_number(rest, misread);
  if (take(rest, '+')) world.datasets = static_cast<int>(std::min(take_number(rest, misread), kMost));
  if (take(rest, ':')) world.steps = take_number(rest, misread);
  if (world.steps && take(rest, '!')) world.lost = take_number(rest, misread);
  constexpr std::int64_t kMany = 4096;
  const bool is_good = rest.empty() && ranks >= 1 && ranks <= kMany && workers >= 0 && workers <= kMany &&
                       world.batch >= 1 && world.steps.value_or(1) >= 1 && world.datasets <= kMostDatasets;
  if (!is_good) {
    refuse(fmt::format(
        "--worlds: \"{}\" is not RANKSxWORKERS[@BATCH][+DATASETS][:STEPS[!LOST]] with at least 1 rank, "
        "0 workers, a batch of 1 and 1 step, and at most {} datasets",
        text, kMostDatasets));
  }
  world.ranks = static_cast<int>(ranks);
  world.workers = static_cast<int>(workers);
  return world;
}

rota::WindowOptions parse_window(const std::string& text) {
  const auto misread = fmt::format("--window: \"{}\" is not LENGTH[:STRIDE], such as 24:6", text);
  std::string_view rest = text;
  rota::WindowOptions window{.length = take_number(rest, misread)};
  if (take(rest, ':')) window.stride = take_number(rest, misread);
  if (!rest.empty()) refuse(misread);
  window.validate();
  return window;
}

Command understand(Words words) {
  RunOptions& run = words.phase.run;
  run.loader.shuffle = rota::parse_shuffle(words.shuffle);
  run.loader.tail = rota::parse_tail(words.tail);
  run.loader.rank_split = rota::parse_split(words.rank_split);
  run.loader.worker_split = rota::parse_split(words.worker_split);
  run.loader.validate();
  if (words.window) run.window = parse_window(*words.window);
  Command command;
  if (words.is_phase) {
    if (words.phase.checkpoint.empty()) refuse("--phase needs --checkpoint DIR");
    command.phase = std::move(words.phase);
  } else {
    if (words.is_planned) run.datasets = kMostDatasets - 1;
    if (words.worlds.empty()) words.worlds = words.is_planned ? kPlannedWorlds : kWorlds;
    command.driver = {.run = run,
                      .worlds = parse_worlds(words.worlds, run.loader.global_batch_size),
                      .work = words.work,
                      .timeout = std::chrono::seconds(words.timeout_seconds)};
    int datasets = run.datasets;
    for (WorldOptions& world : command.driver.worlds) {
      if (world.datasets != 0 && !words.is_planned) refuse("--worlds: +DATASETS is of a demo with --plan");
      datasets = std::max(datasets, world.datasets);
      world.datasets = datasets;
    }
  }
  return command;
}

}  // namespace

Command parse_command(int argc, char** argv) {
  Words words;
  CLI::App app(kAbout, "rescale_demo");
  add_run(app, words);
  CLI::Option* phase =
      app.add_flag("--phase", words.is_phase, "run one phase of a run; the demo starts these");
  add_driver(app, words, phase);
  add_phase(app, words, phase);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.help = app.help(), .phase = {}, .driver = {}};
  } catch (const CLI::ParseError& error) {
    refuse(fmt::format("{}; --help lists the options", error.what()));
  }
  return understand(std::move(words));
}

std::vector<WorldOptions> parse_worlds(const std::string& text, std::int64_t batch) {
  std::vector<WorldOptions> worlds;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    worlds.push_back(parse_world(text.substr(begin, end - begin), batch));
    begin = end + 1;
  }
  return worlds;
}

std::vector<std::string> phase_arguments(const RunOptions& run, const WorldOptions& world,
                                         const std::filesystem::path& checkpoint,
                                         const std::filesystem::path& trace,
                                         const std::filesystem::path& summary) {
  const rota::LoaderOptions& loader = run.loader;
  std::vector<std::string> arguments{"--phase", "--resume"};
  const auto add = [&](const char* option, std::string value) {
    arguments.emplace_back(option);
    arguments.push_back(std::move(value));
  };
  add("--data", run.data.string());
  add("--format", run.format);
  if (run.pack_length) add("--pack", std::to_string(*run.pack_length));
  if (run.window) add("--window", fmt::format("{}:{}", run.window->length, run.window->stride));
  add("--shards", std::to_string(loader.shards));
  add("--interleave", std::to_string(loader.interleave));
  add("--batch", std::to_string(world.batch));
  add("--shuffle", std::string(to_string(loader.shuffle)));
  add("--tail", std::string(to_string(loader.tail)));
  add("--rank-split", std::string(to_string(loader.rank_split)));
  add("--worker-split", std::string(to_string(loader.worker_split)));
  add("--seed", std::to_string(loader.seed));
  add("--epochs", std::to_string(loader.epochs));
  add("--workers", std::to_string(world.workers));
  add("--checkpoint", checkpoint.string());
  add("--trace", trace.string());
  add("--summary", summary.string());
  if (world.datasets > 0) add("--datasets", std::to_string(world.datasets));
  if (world.steps) add("--stop-after", std::to_string(*world.steps));
  if (world.lost > 0) add("--lose", std::to_string(world.lost));
  return arguments;
}

}  // namespace rescale_demo
