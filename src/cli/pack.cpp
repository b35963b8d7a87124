// `rota pack`: writes a dataset as shards.

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cli/dataset.hpp"
#include "cli/number_option.hpp"
#include "cli/progress_bar.hpp"
#include "cli/shown_text.hpp"
#include "cli/verbs.hpp"
#include "rota/open.hpp"
#include "rota/write_shards.hpp"

namespace rota::cli {
namespace {

struct PackOptions {
  DatasetOptions dataset;
  std::string destination;
  std::string to = "tar";
  ShardOptions shards;
};

void pack(PackOptions& options) {
  ProgressBar bar;
  CatalogOptions how;
  how.progress = bar.function();
  const auto source = open(make_catalog(options.dataset, how), options.dataset.format);
  options.shards.format = options.to == to_string(ShardFormat::mds) ? ShardFormat::mds : ShardFormat::tar;
  options.shards.progress = bar.function();
  options.shards.world = world_from_environment();
  const ShardReport report = write_shards(source, options.destination, options.shards);
  fmt::print("{}: {} in {}\n  there    {} of {}, {}\n  written  {}{}\n", shown(options.destination),
             counted(report.samples, "sample"), counted(report.shards, "shard"), grouped(report.there),
             grouped(report.shards), human_bytes(report.bytes), grouped(report.written),
             report.is_complete ? "" : "\nnot complete: other processes write the rest, or have failed");
}

}  // namespace

Verb add_pack(CLI::App& app) {
  const auto options = std::make_shared<PackOptions>();
  CLI::App& command = *app.add_subcommand(
      "pack",
      "Writes a dataset of small files, or of rows, as shards, to be read in its place. Where it was "
      "interrupted, the same command goes on. Under mpirun, srun or torchrun each process writes its part.");
  add_dataset(command, options->dataset);
  command.add_option("-o,--output", options->destination, "an empty directory, or s3://bucket/prefix")
      ->required();
  command
      .add_option("--to", options->to,
                  "what to write: tar, for fields that are bytes, or mds, for numbers, too")
      ->check(CLI::IsMember({"tar", "mds"}))
      ->capture_default_str();
  add_number(command, "--shard-bytes", options->shards.shard_bytes, 1, "about so large is a shard");
  add_number(command, "--workers", options->shards.workers, 0, "reading threads", 4096);
  return {.command = &command, .run = [options] {
            pack(*options);
            return 0;
          }};
}

}  // namespace rota::cli
