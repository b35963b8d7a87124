// `rota when`: what a run reads in a step, and when it reads a sample, by its state alone.

#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "files/path.hpp"
#include "order/run_state.hpp"
#include "resume/saved_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/open.hpp"
#include "rota/run.hpp"

namespace rota::cli {
namespace {

using internal::OrderedJson;

struct When {
  std::filesystem::path file;
  std::string loader = "main";
  DatasetOptions dataset;
  std::int64_t step = -1;
  std::int64_t sample = -1;
  std::int64_t epoch = 0;
  int ranks = 1;
  int rank = -1;  // all of them
  std::string split = "by_sample";
  bool is_json = false;
};

// No text begins as one does.
bool is_checkpoint(const std::filesystem::path& file) {
  return std::ifstream(file, std::ios::binary).get() == 0x89;
}

// A state, a recipe, or what `state_dict` returned, as JSON.
std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_string()) return json.get<std::string>();
  const bool is_dict = json.is_object() && json.contains("rota") && json["rota"].is_string();
  return is_dict ? json["rota"].get<std::string>() : text;
}

// What the lengths of shards and blocks may be, by `source`: a state has a digest of them alone.
std::vector<RunData> lengths_of(const Source& source, std::int64_t shards) {
  const std::vector<std::int64_t> units = source.unit_sizes();
  std::vector<RunData> all;
  for (const auto& lengths :
       {std::vector<std::int64_t>(), source.part_sizes(), units, source.shard_lengths(shards)}) {
    for (const auto& blocks : {std::vector<std::int64_t>(), units})
      all.push_back({.samples = source.size(), .shard_lengths = lengths, .block_lengths = blocks});
  }
  return all;
}

// A run over a number of samples is known by that alone.
void require_same_data(const internal::StateText& saved, const Source& source) {
  const auto told = [&](Fingerprint known) {
    return fmt::format("{} samples with fingerprint {}", source.size(), to_string(known));
  };
  const std::string then = internal::describe_dataset(saved.object().object("order"));
  if (then == told(source.fingerprint()) || then == told(*Run(source.size()).options().fingerprint)) return;
  saved.fail(ErrorCode::mismatch,
             fmt::format("it is of {}, PATH has {}; give the run's own data, or leave PATH out", then,
                         told(source.fingerprint())));
}

Run run_of(const internal::StateText& saved, const Source* source) {
  if (source == nullptr) return internal::run_of(saved);
  if (saved.object().has("mixture"))
    saved.fail(ErrorCode::unsupported, "it is of a mixture, and PATH is one dataset; leave PATH out");
  require_same_data(saved, *source);
  std::exception_ptr refused;
  for (const RunData& lengths : lengths_of(*source, saved.object().object("order").number("shards"))) {
    try {
      return internal::run_of(saved, {lengths});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::mismatch && error.code() != ErrorCode::invalid_argument) throw;
      if (!refused) refused = std::current_exception();
    }
  }
  std::rethrow_exception(refused);
}

}  // namespace

Run read_run(const std::filesystem::path& file, const std::string& loader, const Source* source) {
  std::error_code unknown;  // what it is else
  if (!std::filesystem::is_regular_file(file, unknown))
    throw internal::failure(ErrorCode::not_found, "read a state from {}: there is no such file",
                            file.string());
  if (!is_checkpoint(file)) {
    const internal::StateText saved(fmt::format("read the state in {}", file.string()), internal::kLoaderKind,
                                    text_in(file));
    saved.require_digest();
    return run_of(saved, source);
  }
  const Checkpoint checkpoint = open_checkpoint(file);
  return run_of(internal::SavedState(internal::kLoaderKind, checkpoint, loader), source);
}

namespace {

// ---- what is printed ----

std::string where_of(const Source* source, SampleId id) { return source == nullptr ? "" : source->where(id); }

std::string_view kind_of(SlotKind kind) {
  if (kind == SlotKind::skipped) return "skipped";
  return kind == SlotKind::pad ? "pad" : "sample";
}

// Of each sample of a rank's slice.
OrderedJson samples_of(const RunSlice& slice, const Source* source) {
  OrderedJson samples = OrderedJson::array();
  for (std::size_t i = 0; i < slice.ids.size(); ++i) {
    OrderedJson sample{{"slot", slice.slots[i]},
                       {"id", slice.ids[i].value},
                       {"epoch", slice.epochs[i]},
                       {"kind", kind_of(slice.kinds[i])},
                       {"dataset", slice.datasets[i]}};
    if (source != nullptr) sample["where"] = where_of(source, slice.ids[i]);
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::string step_text(const OrderedJson& step, bool has_source) {
  std::string text =
      fmt::format("step {}{}: begins in epoch {} behind sample {}, and has {}\n\n", step["step"].dump(),
                  step.value("is_skipped", false) ? ", which the plan leaves out" : "", step["epoch"].dump(),
                  step["consumed"].dump(), counted(step["global_size"].get<std::int64_t>(), "slot"));
  std::vector<std::vector<std::string>> table{{"where", "slot", "sample", "epoch", "kind", "dataset"}};
  for (const OrderedJson& sample : step["samples"]) {
    table.push_back({shown(sample.value("where", "")), sample["slot"].dump(), sample["id"].dump(),
                     sample["epoch"].dump(), sample["kind"].get<std::string>(), sample["dataset"].dump()});
  }
  for (auto& row : table) {
    if (!step.value("is_mixture", false)) row.pop_back();
    if (!has_source) row.erase(row.begin());
  }
  return text + table_text(table, has_source ? 1 : 0);
}

int tell_step(const When& when, const Run& run, const Source* source) {
  const bool is_skipped = internal::RunAccess::path(run).is_skipped(when.step);
  const auto then = internal::RunAccess::without_skip(run).at(when.step);
  if (!then) {
    throw internal::failure(ErrorCode::out_of_range, "find step {}: the run has fewer steps", when.step);
  }
  const World world = when.rank < 0 ? World{} : World{.rank = when.rank, .size = when.ranks};
  RunSlice slice;
  then->slice(slice, world, parse_split(when.split));
  const OrderedJson step{{"step", when.step},
                         {"is_skipped", is_skipped},
                         {"epoch", slice.start.epoch},
                         {"consumed", slice.start.consumed},
                         {"rank", world.rank},
                         {"ranks", world.size},
                         {"global_size", slice.global_size},
                         {"is_mixture", run.mixture() != nullptr},
                         {"samples", samples_of(slice, source)}};
  fmt::print("{}", when.is_json ? step.dump() + "\n" : step_text(step, source != nullptr));
  return 0;
}

int tell_sample(const When& when, const Run& run, const Source* source) {
  const auto found = run.when({when.sample}, when.epoch, when.ranks, parse_split(when.split));
  const std::string where = where_of(source, {when.sample});
  OrderedJson sample{
      {"sample", when.sample}, {"epoch", when.epoch}, {"is_read", found && !found->is_skipped}};
  if (found)
    sample.update(
        {{"step", found->step}, {"rank", found->rank}, {"ranks", when.ranks}, {"slot", found->slot}});
  if (source != nullptr) sample["where"] = where;
  if (when.is_json) {
    fmt::print("{}\n", sample.dump());
  } else {
    fmt::print("sample {}{} in epoch {}: {}\n", when.sample,
               where.empty() ? "" : fmt::format(" ({})", shown(where)), when.epoch,
               found ? fmt::format("step {}, rank {} of {}, slot {}{}", found->step, found->rank, when.ranks,
                                   found->slot, found->is_skipped ? "; skipped, as the plan says" : "")
                     : "not read: it is dropped, or past the end of the run");
  }
  return found && !found->is_skipped ? 0 : kProblems;
}

int tell(const When& when) {
  std::shared_ptr<const Source> source;
  if (!when.dataset.path.empty()) {
    ProgressBar bar;
    source = open(make_catalog(when.dataset, {.progress = bar.function()}), when.dataset.format);
  }
  const Run run = read_run(when.file, when.loader, source.get());
  return when.step >= 0 ? tell_step(when, run, source.get()) : tell_sample(when, run, source.get());
}

}  // namespace

void add_when(CLI::App& app, int& code) {
  const auto when = std::make_shared<When>();
  CLI::App& command = *app.add_subcommand(
      "when", "Tells what a run reads in a step, and when it reads a sample, by its state.");
  command
      .add_option("FILE", when->file,
                  "a checkpoint, or a text: what state(), recipe() or state_dict() returned, as JSON")
      ->required();
  add_dataset(command, when->dataset);
  command.get_option("PATH")->required(false)->description(
      "the data: for the file and record of each sample, and for shards or blocks that are files or units");
  auto& step = add_number(command, "--step", when->step, 0, "what is read in it");
  auto& sample = add_number(command, "--sample", when->sample, 0, "when it is read");
  step.excludes(&sample);
  add_number(command, "--epoch", when->epoch, 0, "of the sample").needs(&sample);
  add_number(command, "--ranks", when->ranks, 1, "of the world", std::numeric_limits<int>::max());
  add_number(command, "--rank", when->rank, 0, "the one whose slice is told; else the whole batch",
             std::numeric_limits<int>::max())
      .excludes(&sample);
  command.add_option("--split", when->split, "of a batch among ranks")
      ->capture_default_str()
      ->check(
          CLI::IsMember(std::vector<std::string>(internal::kSplits.begin(), internal::kSplits.begin() + 3)));
  command.add_option("--loader", when->loader, "its name in the checkpoint")->capture_default_str();
  command.add_flag("--json", when->is_json, "one line of JSON");
  command.callback([when, &code] {
    if ((when->step < 0) == (when->sample < 0)) throw CLI::ValidationError("when", "give --step or --sample");
    if (when->step >= 0 && when->rank < 0 && (when->ranks > 1 || when->split != "by_sample"))
      throw CLI::ValidationError("when", "--ranks and --split cut a step for one rank; give --rank, too");
    code = tell(*when);
  });
}

}  // namespace rota::cli
