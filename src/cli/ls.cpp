// `rota ls`: which files make a dataset.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "catalog/file_names.hpp"
#include "catalog/files.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "rota/error.hpp"
#include "rota/message.hpp"
#include "rota/open.hpp"
#include "source/field_check.hpp"

namespace rota::cli {
namespace {

struct LsOptions {
  DatasetOptions dataset;
  bool opens = false;       // the dataset, too, to say what it is as a dataset of its format
  bool names = false;       // do not ask files for their sizes
  std::int64_t limit = 10;  // files to list; 0: all
};

bool has_sizes(const Catalog& catalog) { return catalog.change_detection() == ChangeDetection::by_size; }

std::string total_text(const Catalog& catalog) {
  if (!has_sizes(catalog)) return "";
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < catalog.size(); ++i) bytes += catalog.bytes(i);
  if (bytes < 1024) return ", " + counted(bytes, "byte");
  return fmt::format(", {} ({} bytes)", human_bytes(bytes), grouped(bytes));
}

std::string catalog_text(const DatasetOptions& dataset, const Catalog& catalog) {
  std::string text = fmt::format("{}: {}{}\n", shown(dataset.path.native()), counted(catalog.size(), "file"),
                                 total_text(catalog));
  text += fmt::format("  changes      detected by {}\n", has_sizes(catalog) ? "name and size" : "name");
  text += fmt::format("  fingerprint  {}\n", to_string(catalog.fingerprint()));
  if (const std::int64_t left_out = internal::files_of(catalog).left_out(); left_out > 0) {
    text += fmt::format("  left out     {}, hidden or left by programs (--all)\n", counted(left_out, "name"));
  }
  if (!is_saved(dataset)) return text;
  text += fmt::format("  catalog of   {}\n", shown(catalog.origin()));
  text += fmt::format("  since then   {}\n", changes_text(catalog.changes()));
  return text;
}

// What rota has to say of it, too: that it left something out.
std::string source_text(const Catalog& catalog, const std::string& format) {
  std::string notes;
  set_message_sink(
      [&](std::string_view message) { notes += fmt::format("  note         {}\n", shown(message)); });
  const std::shared_ptr<void> at_end(nullptr, [](void*) { set_message_sink({}); });
  const auto source = open(catalog, format);
  return fmt::format("  as {:<8}  {}, fingerprint {}\n  fields       {}\n{}", format,
                     counted(source->size(), "sample"), to_string(source->fingerprint()),
                     shown(internal::describe(source->fields())), notes);
}

// Names do not show what such a file holds. One that cannot be opened can be listed.
std::string hdf5_text(const Catalog& catalog) {
  const std::string first = catalog.size() > 0 ? catalog.path(0) : "";
  if (!internal::ends_as(first, ".h5") && !internal::ends_as(first, ".hdf5")) return "";
  try {
    const std::string text = source_text(Catalog(first), "hdf5");
    return text + (catalog.size() > 1 ? "  note         of the first file; --format hdf5 opens all\n" : "");
  } catch (const Error& error) {
    return fmt::format("  note         {}\n", shown(error.what()));
  }
}

// One line a file, with its size before its name, which may be of any length.
void print_files(const Catalog& catalog, std::int64_t limit) {
  const internal::FileList& files = internal::files_of(catalog);
  const auto names = files.read_names();
  const std::int64_t count = limit == 0 ? catalog.size() : std::min(limit, catalog.size());
  std::int64_t most = 0;
  for (std::int64_t i = 0; has_sizes(catalog) && i < count; ++i) most = std::max(most, catalog.bytes(i));
  const std::size_t width = std::max(grouped(most).size(), std::string_view("bytes").size());
  const std::string head = has_sizes(catalog) ? fmt::format("  {:>{}}", "bytes", width) : "";
  fmt::print("\n{}  file\n", head);
  for (std::int64_t i = 0; i < count; ++i) {
    if (has_sizes(catalog)) fmt::print("  {:>{}}", grouped(catalog.bytes(i)), width);
    fmt::print("  {}\n", shown(files.path((*names)[static_cast<std::size_t>(i)])));
  }
  if (count < catalog.size()) fmt::print("  and {} more\n", grouped(catalog.size() - count));
}

int ls(const LsOptions& options) {
  ProgressBar bar;
  const auto detection = options.names ? ChangeDetection::by_name : ChangeDetection::by_size;
  const Catalog catalog =
      make_catalog(options.dataset, {.change_detection = detection, .progress = bar.function()});
  fmt::print("{}", catalog_text(options.dataset, catalog));
  if (options.opens) {
    flush_output();
    fmt::print("{}", source_text(catalog, format_of(options.dataset, catalog)));
  } else {
    fmt::print("{}", hdf5_text(catalog));
  }
  print_files(catalog, options.limit);
  return 0;
}

}  // namespace

void add_ls(CLI::App& app, int& code) {
  const auto options = std::make_shared<LsOptions>();
  CLI::App& command = *app.add_subcommand(
      "ls", "Lists the files that make a dataset, and what a saved catalog of it has not seen.");
  CLI::Option& format = add_dataset(command, options->dataset);
  format.description("open the dataset, too, and count its samples; the format " + format.get_description());
  command.add_flag("--names", options->names, "do not ask files for their sizes, which is faster");
  add_number(command, "--limit", options->limit, 0, "files to list; 0: all");
  command.callback([options, &format, &code] {
    options->opens = format.count() > 0;
    code = ls(*options);
  });
}

}  // namespace rota::cli
