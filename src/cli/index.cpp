// `rota index`: makes saved catalogs, and brings them up to date.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "catalog/location.hpp"
#include "catalog/saved.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"
#include "files/descriptor.hpp"
#include "rota/open.hpp"

namespace rota::cli {
namespace {

constexpr std::int64_t kMostThreads = 1024;

struct IndexOptions {
  DatasetOptions dataset;
  std::filesystem::path file;  // where the catalog goes
  int threads = 8;
  bool force = false;  // take the place of any file
};

using Path = std::filesystem::path;

// Absolute, without what changes nothing. Links are left alone, and with them "..".
Path plain(const Path& path) {
  if (internal::parse_stored(path.native(), {}).storage != nullptr) return path;
  Path plain;
  for (const Path& part : Path(internal::absolute_path(path.native()))) {
    if (!part.empty() && part != ".") plain /= part;
  }
  return plain;
}

// What a catalog of the dataset says that it was made of.
internal::Origin origin_of(const DatasetOptions& dataset) {
  if (dataset.is_manifest) return {.kind = internal::Origin::Kind::manifest, .path = plain(dataset.path)};
  if (is_saved(dataset)) return internal::read_catalog(dataset.path.native(), {}).origin;
  using Kind = internal::Origin::Kind;
  return {.kind = dataset.all_names ? Kind::all_names : Kind::path, .path = plain(dataset.path)};
}

// Whether the file is a catalog of this dataset, which is to be brought up to date.
bool is_update(const IndexOptions& options, const internal::Origin& origin) {
  const std::string& file = options.file.native();
  if (!internal::open_file(file, {})) return false;
  std::string why = "it is there, and no saved catalog";
  if (internal::is_saved_catalog(file, {})) {
    try {
      const internal::Origin other = internal::read_catalog(file, {}).origin;
      if (other.kind == origin.kind && plain(other.path) == plain(origin.path)) return true;
      why = fmt::format("it is the catalog of {}, and not of {}", other.path, origin.path);
    } catch (const Error& error) {
      why = error.what();
    }
  }
  if (options.force) return false;
  throw internal::failure(ErrorCode::invalid_argument, "index to {}: {}; name another file, or use --force",
                          file, why);
}

struct Indexed {
  std::string format;
  std::int64_t samples = 0;
  std::int64_t looked_into = 0;
  std::optional<CatalogChanges> changes;  // where there was a catalog
  std::int64_t files = 0;
};

Indexed make_index(const IndexOptions& options, bool is_update) {
  ProgressBar bar;
  Indexed made;
  CatalogOptions how{.listing_threads = options.threads, .indexing_threads = options.threads};
  how.progress = [&](const Progress& progress) {
    if (progress.task == "index files" && progress.is_over) {  // of arrays, once for each
      made.looked_into = std::max(made.looked_into, progress.done);
    }
    bar.show(progress);
  };
  const bool was_saved = is_update || is_saved(options.dataset);
  how.max_bad_files = options.dataset.max_bad_files;
  Catalog catalog = is_update ? Catalog(options.file, how) : make_catalog(options.dataset, how);
  if (was_saved) made.changes = catalog.changes();
  if (catalog.changes().any()) {  // which may not be opened
    catalog.save(options.file);
    catalog = Catalog(options.file, how);
  }
  made.files = catalog.size();
  made.format = format_of(options.dataset, catalog);
  made.samples = open(catalog, made.format)->size();
  catalog.save(options.file, made.format);
  return made;
}

int index(const IndexOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const internal::Origin origin = origin_of(options.dataset);
  internal::require_savable(options.file, origin, {});
  const Indexed made = make_index(options, is_update(options, origin));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto saved = internal::open_file(options.file.native(), {});
  const auto bytes = saved ? static_cast<std::int64_t>(saved->bytes()) : 0;
  fmt::print("{}: the catalog of {}\n  format       {}\n  files        {}\n  samples      {}\n",
             shown(options.file.native()), shown(origin.path), made.format, grouped(made.files),
             grouped(made.samples));
  if (made.changes) fmt::print("  since then   {}\n", changes_text(*made.changes));
  fmt::print("  looked into  {} of {}\n  took         {:.2f} s, {} {}\n", grouped(made.looked_into),
             counted(made.files, "file"), took.count(), counted(bytes, "byte"),
             saved && saved->storage() != nullptr ? "there" : "on disk");
  return 0;
}

}  // namespace

void add_index(CLI::App& app, int& code) {
  const auto options = std::make_shared<IndexOptions>();
  CLI::App& command = *app.add_subcommand(
      "index",
      "Looks into the files of a dataset, and saves what it finds as a catalog, which can then be opened in "
      "the place of PATH. A catalog that is there is brought up to date.");
  add_dataset(command, options->dataset);
  command.add_option("-o,--output", options->file, "the catalog")->required();
  add_number(command, "--threads", options->threads, 1, "that list and look into files", kMostThreads);
  command.add_flag("--force", options->force, "take the place of a file that is no catalog of this dataset");
  command.callback([options, &code] { code = index(*options); });
}

}  // namespace rota::cli
