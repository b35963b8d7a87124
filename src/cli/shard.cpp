// `rota shard`: writes a dataset as shards.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "catalog/saved.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "core/enumerators.hpp"
#include "rota/error.hpp"
#include "rota/open.hpp"
#include "rota/write_shards.hpp"
#include "shards/shard_encoding.hpp"

namespace rota::cli {
namespace {

struct ShardVerbOptions {
  DatasetOptions dataset;
  std::string destination;
  std::string to = "tar";
  std::optional<std::uint64_t> seed;
  bool is_numbered = false;
  ShardOptions shards;
};

// With names of files, where tar files can keep them.
std::shared_ptr<const Source> open_to_shard(const ShardVerbOptions& options, const Catalog& catalog) {
  const std::string format = format_of(options.dataset, catalog);
  const bool keeps_names = options.to == to_string(ShardOptions::Format::tar) && !options.is_numbered;
  if (!keeps_names || (format != "tar" && format != "files")) return open(catalog, format);
  if (format == "tar") return open(catalog, TarOptions{.keys = true});
  try {
    auto named = open(catalog, FilesOptions{.keys = true});
    internal::make_encoding(ShardOptions::Format::tar, named->fields())->require(*named);
    return named;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fmt::print(stderr, "samples are named by number: {}\n", shown(error.what()));
    return open(catalog, "files");
  }
}

int shard(ShardVerbOptions& options) {
  ProgressBar bar;
  const Catalog catalog = make_catalog(options.dataset, {.progress = bar.function()});
  internal::refuse_inside(std::filesystem::path(options.destination) / "shard.tar",
                          {.path = catalog.origin()});
  auto source = open_to_shard(options, catalog);
  if (options.seed) source = split(source, {1}, *options.seed)[0];
  options.shards.format = static_cast<ShardOptions::Format>(
      std::ranges::find(internal::kShardFormats, options.to) - internal::kShardFormats.begin());
  options.shards.world = world_from_environment();
  if (options.shards.world.rank == 0) options.shards.progress = bar.function();
  const ShardReport report = write_shards(source, options.destination, options.shards);
  // One of many processes reports, and the one that finds all done.
  if (options.shards.world.rank > 0 && !report.is_complete) return 0;
  fmt::print("{}: {} in {}\n  there    {} of {}, {}\n  written  {}{}\n", shown(options.destination),
             counted(report.samples, "sample"), counted(report.shards, "shard"), grouped(report.there),
             grouped(report.shards), human_bytes(report.bytes), grouped(report.written),
             report.is_complete ? "" : "\nnot complete: other processes write the rest, or have failed");
  return 0;
}

}  // namespace

void add_shard(CLI::App& app, int& code) {
  const auto options = std::make_shared<ShardVerbOptions>();
  CLI::App& command = *app.add_subcommand(
      "shard",
      "Writes a dataset of small files, or of rows, as shards, to be read in its place. Where it was "
      "interrupted, the same command goes on. Under mpirun, srun or torchrun each process writes its part.");
  add_dataset(command, options->dataset);
  command.add_option("-o,--output", options->destination, "an empty directory, or s3://bucket/prefix")
      ->required();
  command
      .add_option(
          "--to", options->to,
          "what to write: tar, for fields that are bytes, tfrecord, for one, or mds, for numbers, too")
      ->check(CLI::IsMember(internal::kShardFormats).description(""))
      ->capture_default_str();
  add_number(command, "--shard-bytes", options->shards.shard_bytes, 1, "about so large is a shard");
  add_number(command, "--workers", options->shards.workers, 0, "reading threads", 4096);
  command
      .add_option("--shuffle", options->seed,
                  "a seed: writes the samples in an order of its own, as for class folders")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--numbered", options->is_numbered,
                   "tar files name samples by number, and not as their files");
  command.callback([options, &code] { code = shard(*options); });
}

}  // namespace rota::cli
