#pragma once

// The verbs of the tool, each in a source of its name, and options that several have: whole numbers, and the
// dataset that they look at.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "rota/catalog.hpp"
#include "rota/communicator.hpp"
#include "rota/run.hpp"
#include "rota/source.hpp"

namespace rota::cli {

inline constexpr int kProblems = 1;  ///< exit code where something is wrong with what was looked at
inline constexpr int kUsage = 2;

/// The tool: does what the command line says, and returns its exit code. Closes stdout. The program `rota` is
/// this; so is the module for Python.
int run(int argc, char** argv);

/// Adds a verb to the command line. Parsing that runs it, where it was given, and sets its exit code.
void add_audit(CLI::App& app, int& code);
void add_scripts(CLI::App& app, int& code);  // `report`
void add_inspect(CLI::App& app, int& code);
void add_verify(CLI::App& app, int& code);
void add_when(CLI::App& app, int& code);
void add_diff(CLI::App& app, int& code);
void add_ls(CLI::App& app, int& code);
void add_index(CLI::App& app, int& code);
void add_head(CLI::App& app, int& code);
void add_plan(CLI::App& app, int& code);
void add_speed(CLI::App& app, int& code);
void add_shard(CLI::App& app, int& code);

/// Goes on as the `main` of a module of rota's package for Python; does not return.
void become_module(const std::string& module, const std::vector<std::string>& arguments);

/// The run of loader `loader` of a checkpoint, or of a text in a file. `source`, if it is there, has lengths
/// that a state has not. Throws Error{not_found}, and as Run::from does.
Run read_run(const std::filesystem::path& file, const std::string& loader, const Source* source = nullptr);

/// Verifies a checkpoint, or every checkpoint of a directory, newest first, and prints to `out` what is good
/// and all that is damaged. Takes no lock on the directory, which a job may be using. Returns whether all is
/// good, and there is something at all. Throws what `verify_checkpoint` throws for a file.
bool verify(const std::filesystem::path& file_or_directory, std::FILE* out);

/// The decimal number that `text` is. Throws CLI::ValidationError, which names `option`, for anything else
/// and outside [least, most].
std::int64_t parse_number(const std::string& option, const std::string& text, std::int64_t least,
                          std::int64_t most);

/// Adds an option that is a number from `least` to `most`. `value` has the default, if there is one, and must
/// live as long as `command`.
template <typename Number>
CLI::Option& add_number(CLI::App& command, const std::string& name, Number& value, std::int64_t least,
                        const std::string& help,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  CLI::Option& option = *command.add_option_function<std::string>(
      name,
      [&value, name, least, most](const std::string& text) {
        value = static_cast<Number>(parse_number(name, text, least, most));
      },
      help);
  option.type_name("INT");
  if constexpr (requires { std::to_string(value); }) option.default_str(std::to_string(value));
  return option;
}

/// A dataset, as a user names it.
struct DatasetOptions {
  std::filesystem::path path;   ///< a plain_path: of a file, directory, glob, saved catalog, or manifest
  std::string format = "auto";  ///< see rota::open
  bool is_manifest = false;
  bool all_names = false;
  int max_bad_files = 0;
};

/// Adds the options of a dataset to a verb; returns that of the format. `dataset` must live as long.
CLI::Option& add_dataset(CLI::App& command, DatasetOptions& dataset);

/// Whether the dataset is named by a saved catalog. Throws Error{io}.
bool is_saved(const DatasetOptions& dataset);

/// Makes the catalog, by all ranks of `comm`. Throws what that throws.
Catalog make_catalog(const DatasetOptions& dataset, CatalogOptions how, const Communicator& comm = {});

/// The format of the dataset: the one that is named, or what a look shows.
std::string format_of(const DatasetOptions& dataset, const Catalog& catalog);

/// "1 changed, 0 vanished, 2 appeared, among them a.tar", or "nothing".
std::string changes_text(const CatalogChanges& changes);

}  // namespace rota::cli
