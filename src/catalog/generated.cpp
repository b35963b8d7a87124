#include "catalog/generated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "catalog/directory_sample.hpp"
#include "catalog/pattern_listing.hpp"
#include "catalog/serialize.hpp"
#include "catalog/validation.hpp"
#include "rota/error.hpp"
#include "values/option.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kMostNumber = 1'000'000'000'000'000'000;

/// What rank 0 finds out, for all.
struct Generated {
  std::string directory;
  NameSeries series;
  ProbeOptions probes;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(directory, series, probes);
  }
};

[[noreturn]] void fail(ErrorCode code, std::string_view written, std::string_view what) {
  throw Error(code, fmt::format("make a catalog of the pattern {}: {}", written, what));
}

/// Puts together what the pattern and the options say.
class SeriesMaker {
 public:
  SeriesMaker(const std::string& written, const PatternOptions& options)
      : written_(written), options_(options), pattern_(NamePattern::parse(written)) {
    pattern_.require_names();
    directory_ = pattern_.directory();
    pattern_ = pattern_.below_directory();
  }

  [[nodiscard]] Generated make() const {
    require_folders();
    const std::int64_t files = options_.files > 0 ? options_.files : find_total();
    const std::int64_t folders = std::max<std::int64_t>(options_.folders, 1);
    if (options_.layout == FolderLayout::restart && files % folders != 0) {
      fail(ErrorCode::invalid_argument, written_,
           fmt::format("{} files cannot be shared out alike to {} folders; mend files, folders or layout in "
                       "PatternOptions",
                       files, folders));
    }
    return {.directory = directory_,
            .series = {.pattern = pattern_,
                       .files = files,
                       .first_index = options_.first_index,
                       .folders = folders,
                       .first_folder = options_.first_folder,
                       .layout = options_.layout},
            .probes = {.confidence = options_.confidence,
                       .missing_fraction = options_.missing_fraction,
                       .seed = options_.seed}};
  }

 private:
  void require_folders() const;
  [[nodiscard]] std::int64_t find_total() const;

  const std::string& written_;
  const PatternOptions& options_;
  NamePattern pattern_;  // below the directory
  std::string directory_;
};

void SeriesMaker::require_folders() const {
  const PatternOptions none;
  if (pattern_.has(NameField::folder)) {
    if (options_.folders > 0) return;
    const NamePattern folder = pattern_.through(NameField::folder);
    fail(ErrorCode::invalid_argument, written_,
         fmt::format("it has a {{folder}}; say how many there are in PatternOptions::folders: {}",
                     describe_names(directory_, folder, {.index = options_.first_index})));
  }
  if (options_.folders == 0 && options_.first_folder == 0 && options_.layout == none.layout) return;
  fail(ErrorCode::invalid_argument, written_,
       "PatternOptions say of folders, and there is no {folder} in the pattern");
}

// The names of some files say how many there are: those in the directory of the first one.
std::int64_t SeriesMaker::find_total() const {
  if (!pattern_.has(NameField::total)) {
    fail(
        ErrorCode::invalid_argument, written_,
        fmt::format("nothing says how many files there are, and asking for one after the other would stop at "
                    "the first gap; set PatternOptions::files, or write {{total}} where the names tell it. "
                    "Or list them by Catalog(\"{}\"), which is fast",
                    directory_.empty() ? "." : directory_));
  }
  const NamePattern path = pattern_.through(NameField::total);
  const NameNumbers first{.index = options_.first_index, .folder = options_.first_folder};
  const auto totals = totals_in(directory_, path, first);
  if (totals.empty()) {
    fail(ErrorCode::not_found, written_,
         fmt::format("no name tells how many files there are, in as many digits as {{total}} has in the "
                     "pattern; mend it, or set PatternOptions::files: {}",
                     describe_names(directory_, path, first)));
  }
  if (totals.size() > 1) {
    fail(
        ErrorCode::invalid_argument, written_,
        fmt::format("{} and {} do not agree on how many files there are; remove those of another dataset, or "
                    "set PatternOptions::files",
                    totals.begin()->second, totals.rbegin()->second));
  }
  return totals.begin()->first;
}

}  // namespace

FileList generate_files(const std::shared_ptr<const OpenContext>& context, const std::string& pattern,
                        const PatternOptions& options) {
  mpi::together(context->nodes.all(), "make a catalog of a pattern", [&] { options.validate(); });
  const Generated found = made_on_first_rank(*context, "make a catalog of a pattern",
                                             [&] { return SeriesMaker(pattern, options).make(); });
  FileList files(context, found.directory, std::make_shared<PatternListing>(found.series),
                 found.series.fingerprint());
  const auto look = [&](const std::string& name, NameKind kind) {
    return look_for(files.root().get(), name.c_str(), kind);
  };
  validate_files(*context, Probes(found.series, found.probes), look, found.directory);
  return files;
}

}  // namespace rota::internal

namespace rota {

std::string_view to_string(FolderLayout layout) noexcept {
  switch (layout) {
    case FolderLayout::round_robin:
      return "round_robin";
    case FolderLayout::blocks:
      return "blocks";
    case FolderLayout::restart:
      break;
  }
  return "restart";
}

void PatternOptions::validate() const {
  const internal::OptionCheck check("make a catalog of a pattern");
  const auto require = [&](bool is_right, std::string_view name, auto value, std::string_view range) {
    if (!is_right) check.refuse(name, fmt::to_string(value), range);
  };
  const auto require_number = [&](std::string_view name, std::int64_t value) {
    require(value >= 0 && value <= internal::kMostNumber, name, value, "0 to 10^18");
  };
  check.one_of("layout", layout, {"round_robin", "blocks", "restart"});
  require_number("files", files);
  require_number("first_index", first_index);
  require_number("folders", folders);
  require_number("first_folder", first_folder);
  require(confidence >= 0 && confidence <= 1, "confidence", confidence, "0 to 1");
  require(missing_fraction > 0 && missing_fraction < 1, "missing_fraction", missing_fraction,
          "more than 0 and less than 1");
}

}  // namespace rota
