#include "cli/verbs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <system_error>

#include "catalog/saved.hpp"
#include "cli/output.hpp"
#include "files/path.hpp"
#include "rota/open.hpp"

namespace rota::cli {

std::int64_t parse_number(const std::string& option, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::invalid_argument || at != end) {
    throw CLI::ValidationError(option,
                               fmt::format("\"{}\" is no whole number; it may be {} or more", text, least));
  }
  const bool is_outside = error == std::errc::result_out_of_range;  // of all 64 bits
  if (is_outside ? text.starts_with('-') : number < least)
    throw CLI::ValidationError(option, fmt::format("{} is below {}", text, least));
  if (is_outside || number > most)
    throw CLI::ValidationError(option, fmt::format("{} is above {}", text, most));
  return number;
}

CLI::Option& add_dataset(CLI::App& command, DatasetOptions& dataset) {
  command
      .add_option_function<std::string>(
          "PATH", [&dataset](const std::string& text) { dataset.path = internal::plain_path(text); },
          "a file, a directory, a glob in quotes, or a saved catalog")
      ->required();
  command.add_flag("--manifest", dataset.is_manifest,
                   "PATH is a manifest: on each line a file's path, or a JSON object with one");
  command.add_flag("--all", dataset.all_names,
                   "also hidden names, and those that programs leave (.x, x~, _SUCCESS)");
  add_number(command, "--max-bad-files", dataset.max_bad_files, 0,
             "missing, damaged or unreadable files that are passed over", std::numeric_limits<int>::max());
  return *command
              .add_option("--format", dataset.format,
                          fmt::format("of the files: {} (auto looks)", fmt::join(formats(), ", ")))
              ->check(CLI::IsMember(formats()).description(""));
}

bool is_saved(const DatasetOptions& dataset) {
  return !dataset.is_manifest && internal::is_saved_catalog(dataset.path.native(), {});
}

Catalog make_catalog(const DatasetOptions& dataset, CatalogOptions how, const Communicator& comm) {
  how.all_names = dataset.all_names;
  how.max_bad_files = dataset.max_bad_files;
  return dataset.is_manifest ? Catalog::from_manifest(comm, dataset.path, how)
                             : Catalog(comm, dataset.path, how);
}

std::string format_of(const DatasetOptions& dataset, const Catalog& catalog) {
  return dataset.format == "auto" ? find_format(catalog) : dataset.format;
}

std::string changes_text(const CatalogChanges& changes) {
  if (!changes.any()) return "nothing";
  return fmt::format("{} changed, {} vanished, {} appeared, among them {}", grouped(changes.changed),
                     grouped(changes.vanished), grouped(changes.appeared), shown(changes.first));
}

}  // namespace rota::cli
