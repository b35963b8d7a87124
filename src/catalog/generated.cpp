#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "catalog/directory_sample.hpp"
#include "catalog/files.hpp"
#include "catalog/probes.hpp"
#include "catalog/serialize.hpp"
#include "mpi/collectives.hpp"
#include "rota/error.hpp"
#include "values/option.hpp"

namespace rota {

template <typename Archive>
void serialize(Archive& archive, PatternOptions& options) {
  archive(options.files, options.first_index, options.folders, options.first_folder, options.layout,
          options.confidence, options.missing_fraction, options.seed);
}

}  // namespace rota

namespace rota::internal {
namespace {

constexpr std::int64_t kMostNumber = 1'000'000'000'000'000'000;
constexpr std::string_view kTask = "make a catalog of a pattern";

[[noreturn]] void fail(ErrorCode code, std::string_view written, std::string_view what) {
  throw Error(code, fmt::format("make a catalog of the pattern {}: {}", written, what));
}

void require_folders(const std::string& written, const NamePattern& path, const PatternOptions& options,
                     const Storages& storages) {
  if (path.has(NameField::folder)) {
    if (options.folders > 0) return;
    const NamePattern folder = path.through(NameField::folder);
    fail(ErrorCode::invalid_argument, written,
         fmt::format("it has a {{folder}}; say how many there are in PatternOptions::folders: {}",
                     describe_names("", folder, {.index = options.first_index}, storages)));
  }
  if (options.folders == 0 && options.first_folder == 0 && options.layout == PatternOptions().layout) return;
  fail(ErrorCode::invalid_argument, written,
       "PatternOptions say of folders, and there is no {folder} in the pattern");
}

// The names of some files say how many there are: those in the directory of the first one.
std::int64_t find_total(const std::string& written, const NamePattern& path, const PatternOptions& options,
                        const Storages& storages) {
  if (!path.has(NameField::total)) {
    const std::string directory = path.directory();
    fail(ErrorCode::invalid_argument, written,
         fmt::format("nothing says how many files there are, and asking for one after the other would stop "
                     "at the first gap; set PatternOptions::files, or write {{total}} where the names tell "
                     "it. Or list them by Catalog(\"{}\"), which is fast",
                     directory.empty() ? "." : directory));
  }
  const NamePattern told = path.through(NameField::total);
  const NameNumbers first{.index = options.first_index, .folder = options.first_folder};
  const auto totals = totals_in(told, first, storages);
  if (totals.empty()) {
    fail(ErrorCode::not_found, written,
         fmt::format("no name tells how many files there are, in as many digits as {{total}} has in the "
                     "pattern; mend it, or set PatternOptions::files: {}",
                     describe_names("", told, first, storages)));
  }
  if (totals.size() > 1) {
    fail(ErrorCode::invalid_argument, written,
         fmt::format("{} and {} do not agree on how many files there are; remove those of another dataset, "
                     "or set PatternOptions::files",
                     totals.begin()->second, totals.rbegin()->second));
  }
  return totals.begin()->first;
}

// What the pattern and the options say together: all numbers of the series.
PatternOptions complete(const std::string& written, PatternOptions options, const Storages& storages) {
  const NamePattern path = NamePattern::parse(written);
  path.require_names();
  require_folders(written, path, options, storages);
  if (options.files == 0) options.files = find_total(written, path, options, storages);
  options.folders = std::max<std::int64_t>(options.folders, 1);
  if (options.layout == FolderLayout::restart && options.files % options.folders != 0) {
    fail(ErrorCode::invalid_argument, written,
         fmt::format("{} files cannot be shared out alike to {} folders; mend files, folders or layout in "
                     "PatternOptions",
                     options.files, options.folders));
  }
  return options;
}

std::string list_options(const PatternOptions& options) {
  return fmt::format(
      "files {}, first_index {}, folders {}, first_folder {}, layout {}, confidence {}, missing_fraction {}, "
      "seed {}",
      options.files, options.first_index, options.folders, options.first_folder, to_string(options.layout),
      options.confidence, options.missing_fraction, options.seed);
}

}  // namespace

FileList generate_files(const std::shared_ptr<const OpenContext>& context, const std::string& pattern,
                        const PatternOptions& options) {
  mpi::together(context->nodes.all(), kTask, [&] { options.validate(); });
  mpi::require_same(context->nodes.all(), kTask, list_options(options));
  bool is_stored = false;
  mpi::together(context->nodes.all(), kTask,
                [&] { is_stored = parse_stored(pattern, context->options.storages).storage != nullptr; });
  const PatternOptions told = made_on_first_rank(
      *context, kTask, [&] { return complete(pattern, options, context->options.storages); });
  const NamePattern path = NamePattern::parse(pattern);
  const NameSeries series{.pattern = path.below_directory(),
                          .files = told.files,
                          .first_index = told.first_index,
                          .folders = told.folders,
                          .first_folder = told.first_folder,
                          .layout = told.layout};
  FileList files(context, path.directory(), series);
  const auto look = [&](const std::string& name, NameKind kind) {
    if (!is_stored) return look_for(files.place().root().get(), name, kind);
    return files.place().has_stored(name, kind == NameKind::directory) ? 0 : ENOENT;
  };
  validate_files(*context, Probes(series, told), look, path.directory(), is_stored);
  return files;
}

}  // namespace rota::internal

namespace rota {

std::string_view to_string(FolderLayout layout) noexcept {
  return layout == FolderLayout::round_robin ? "round_robin"
         : layout == FolderLayout::blocks    ? "blocks"
                                             : "restart";
}

void PatternOptions::validate() const {
  const internal::OptionCheck check(internal::kTask);
  check.one_of("layout", layout, {"round_robin", "blocks", "restart"});
  check.in_range("files", files, 0, internal::kMostNumber);
  check.in_range("first_index", first_index, 0, internal::kMostNumber);
  check.in_range("folders", folders, 0, internal::kMostNumber);
  check.in_range("first_folder", first_folder, 0, internal::kMostNumber);
  if (!(confidence >= 0 && confidence <= 1)) check.refuse("confidence", fmt::to_string(confidence), "0 to 1");
  if (!(missing_fraction > 0 && missing_fraction < 1))
    check.refuse("missing_fraction", fmt::to_string(missing_fraction), "more than 0 and less than 1");
}

}  // namespace rota
