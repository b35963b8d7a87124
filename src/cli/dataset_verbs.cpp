#include <cstdint>
#include <cstdio>
#include <memory>

#include "cli/head.hpp"
#include "cli/index.hpp"
#include "cli/ls.hpp"
#include "cli/number_option.hpp"
#include "cli/verbs.hpp"
#include "rota/open.hpp"

namespace rota::cli {
namespace {

constexpr std::int64_t kMostThreads = 1024;
constexpr const char* kPathHelp = "a file, a directory, a glob in quotes, or a saved catalog";

CLI::Option& add_dataset(CLI::App& command, DatasetOptions& dataset) {
  command.add_option("PATH", dataset.path, kPathHelp)->required();
  command.add_flag("--manifest", dataset.is_manifest,
                   "PATH is a manifest: on each line a file's path, or a JSON object with one");
  return *command.add_option("--format", dataset.format, "of the files; auto looks")
              ->check(CLI::IsMember(formats()));
}

}  // namespace

Verb add_ls(CLI::App& app) {
  const auto options = std::make_shared<LsOptions>();
  CLI::App& command = *app.add_subcommand(
      "ls", "Lists the files that make a dataset, and what a saved catalog of it has not seen.");
  CLI::Option& format = add_dataset(command, options->dataset);
  format.description("open the dataset, too, as of this format, and count its samples; auto looks");
  command.add_flag("--names", options->names, "do not ask files for their sizes, which is faster");
  add_number(command, "--limit", options->limit, 0, "files to list; 0: all");
  return {.command = &command, .run = [options, &format] {
            options->opens = format.count() > 0;
            ls(*options, stdout);
            return 0;
          }};
}

Verb add_index(CLI::App& app) {
  const auto options = std::make_shared<IndexOptions>();
  CLI::App& command = *app.add_subcommand(
      "index",
      "Looks into the files of a dataset, and saves what it finds as a catalog, which can then be opened in "
      "the place of PATH. A catalog that is there is brought up to date.");
  add_dataset(command, options->dataset);
  command.add_option("-o,--output", options->file, "the catalog")->required();
  add_number(command, "--threads", options->threads, 1, "that list and look into files", kMostThreads);
  command.add_flag("--force", options->force, "take the place of a file that is no catalog of this dataset");
  return {.command = &command, .run = [options] {
            index(*options, stdout);
            return 0;
          }};
}

Verb add_head(CLI::App& app) {
  struct Head {
    DatasetOptions dataset;
    std::int64_t samples = 3;
  };
  const auto options = std::make_shared<Head>();
  CLI::App& command = *app.add_subcommand("head", "Shows the fields and the first samples of a dataset.");
  add_dataset(command, options->dataset);
  add_number(command, "-n", options->samples, 0, "samples to show");
  return {.command = &command, .run = [options] {
            head(options->dataset, options->samples, stdout);
            return 0;
          }};
}

}  // namespace rota::cli
