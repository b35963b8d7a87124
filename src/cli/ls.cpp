#include "cli/ls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "catalog/files.hpp"
#include "catalog/saved.hpp"
#include "cli/progress_bar.hpp"
#include "cli/shown_text.hpp"
#include "cli/text_table.hpp"
#include "rota/open.hpp"

namespace rota::cli {
namespace {

using trace::grouped;

bool has_sizes(const Catalog& catalog) { return catalog.change_detection() == ChangeDetection::by_size; }

std::string total_text(const Catalog& catalog) {
  if (!has_sizes(catalog)) return "";
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < catalog.size(); ++i) bytes += catalog.bytes(i);
  if (bytes < 1024) return ", " + counted(bytes, "byte");
  return fmt::format(", {} ({} bytes)", human_bytes(bytes), grouped(bytes));
}

std::string catalog_text(const LsOptions& options, const Catalog& catalog, bool is_saved) {
  std::string text = fmt::format("{}: {}{}\n", shown(options.dataset.path.native()),
                                 counted(catalog.size(), "file"), total_text(catalog));
  text += fmt::format("  known by     {}\n", has_sizes(catalog) ? "names and sizes" : "names");
  text += fmt::format("  fingerprint  {}\n", to_string(catalog.fingerprint()));
  if (!is_saved) return text;
  text += fmt::format("  catalog of   {}\n", shown(catalog.origin()));
  text += fmt::format("  since then   {}\n", changes_text(catalog.changes()));
  return text;
}

std::string source_text(const Catalog& catalog, const std::string& wanted) {
  const std::string format = wanted == "auto" ? find_format(catalog) : wanted;
  const auto source = open(catalog, format);
  return fmt::format("  as {:<8}  {}, fingerprint {}\n", format, counted(source->size(), "sample"),
                     to_string(source->fingerprint()));
}

// One line a file, with its size before its name, which may be of any length.
void print_files(const Catalog& catalog, std::int64_t limit, std::FILE* out) {
  const internal::FileList& files = internal::files_of(catalog);
  const auto names = files.read_names();
  const std::int64_t count = limit == 0 ? catalog.size() : std::min(limit, catalog.size());
  std::int64_t most = 0;
  for (std::int64_t i = 0; has_sizes(catalog) && i < count; ++i) most = std::max(most, catalog.bytes(i));
  const std::size_t width = std::max(grouped(most).size(), std::string_view("bytes").size());
  const std::string head = has_sizes(catalog) ? fmt::format("  {:>{}}", "bytes", width) : "";
  fmt::print(out, "\n{}  file\n", head);
  for (std::int64_t i = 0; i < count; ++i) {
    if (has_sizes(catalog)) fmt::print(out, "  {:>{}}", grouped(catalog.bytes(i)), width);
    fmt::print(out, "  {}\n", shown(files.path((*names)[static_cast<std::size_t>(i)])));
  }
  if (count < catalog.size()) fmt::print(out, "  and {} more\n", grouped(catalog.size() - count));
}

}  // namespace

void ls(const LsOptions& options, std::FILE* out) {
  ProgressBar bar;
  CatalogOptions how;
  how.change_detection = options.names ? ChangeDetection::by_name : ChangeDetection::by_size;
  how.progress = bar.function();
  const bool is_saved =
      !options.dataset.is_manifest && internal::is_saved_catalog(options.dataset.path.native());
  const Catalog catalog = make_catalog(options.dataset, how);
  fmt::print(out, "{}", catalog_text(options, catalog, is_saved));
  if (options.opens) {
    std::fflush(out);  // it may take its time
    fmt::print(out, "{}", source_text(catalog, options.dataset.format));
  }
  print_files(catalog, options.limit, out);
}

}  // namespace rota::cli
