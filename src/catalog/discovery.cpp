#include "catalog/discovery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "rota/error.hpp"

namespace rota {
namespace {

constexpr std::int64_t kMostFiles = 1'000'000'000'000'000'000;
constexpr std::size_t kMostNames = 10'000;
constexpr std::int64_t kFewFiles = 16;  // are all asked for, to tell layouts apart

constexpr std::array kLayouts = {FolderLayout::round_robin, FolderLayout::blocks, FolderLayout::restart};

// Whether they do, of so many files in so many folders in two layouts: where they have the second and the
// last in common.
bool have_same_names(const NameSeries& a, const NameSeries& b) {
  return a.files == b.files && a.name(1 % a.files) == b.name(1 % b.files) &&
         a.name(a.files - 1) == b.name(b.files - 1);
}

std::vector<std::int64_t> candidates(std::int64_t given) {
  return given >= 0 ? std::vector{given} : std::vector<std::int64_t>{0, 1};
}

// Matches names of one component; what the first {total} stands for is the first group.
std::regex matcher(const NamePattern& component) {
  const std::regex special(R"([.^$|()\[\]{}*+?\\])");
  std::string text;
  bool has_total = false;
  for (const NamePattern::Part& part : component.parts()) {
    text += std::regex_replace(part.text, special, R"(\$&)");
    if (part.field == NameField::none) continue;
    const bool is_first_total = part.field == NameField::total && !std::exchange(has_total, true);
    text += is_first_total ? "([0-9]+)" : part.field == NameField::total ? R"((?:\1))" : "[0-9]+";
  }
  return std::regex(text);
}

// A series of the same names, and the same for all of these: with no zeros that fill up nothing, and the
// first of the layouts that are alike.
NameSeries simplest(NameSeries series) {
  std::vector<NamePattern::Part> parts = series.pattern.parts();
  const NameNumbers least{.index = series.first_index, .folder = series.first_folder, .total = series.files};
  for (NamePattern::Part& part : parts) {
    const std::string number = NamePattern({{.text = {}, .field = part.field}}).name(least);
    if (std::ssize(number) >= part.width) part.width = 1;
  }
  series.pattern = NamePattern(std::move(parts));
  NameSeries other = series;
  other.layout = FolderLayout::round_robin;
  return have_same_names(series, other) ? other : series;
}

class Discovery {
 public:
  Discovery(const AskedDirectory& directory, const KnownNames& known)
      : directory_(directory), given_(known.options) {
    series_.pattern = known.pattern;
    series_.files = given_.files;
  }

  NameSeries run() {
    const bool has_folders = series_.pattern.has(NameField::folder);
    if (!has_folders) require_no_folders();
    if (series_.files == 0 && series_.pattern.has(NameField::total)) find_total();
    find_first(has_folders);
    if (has_folders) return choose_layout();
    if (series_.files == 0) series_.files = count_up([&](std::int64_t i) { return has(series_, i); });
    if (series_.files == 0) fail_missing(series_.name(0));
    return series_;
  }

 private:
  [[nodiscard]] bool has(const NameSeries& series, std::int64_t i) const {
    return directory_.has_file(series.name(i));
  }
  [[noreturn]] void fail(ErrorCode code, std::string_view what) const {
    throw Error(code, fmt::format("find files of the pattern {}{}: {}", directory_.path(),
                                  series_.pattern.text(), what));
  }
  [[noreturn]] void fail_missing(std::string_view name) const {
    fail(ErrorCode::not_found,
         fmt::format("{} is not there; check the pattern, and the numbers in PatternOptions", name));
  }

  void require_no_folders() const;
  void find_total();
  void note_totals(const std::string& below, const NamePattern& component,
                   std::map<std::int64_t, std::string>& totals) const;
  void find_first(bool has_folders);
  void find_folders();
  NameSeries choose_layout();
  [[nodiscard]] std::vector<NameSeries> fitting_layouts() const;
  [[nodiscard]] std::optional<NameSeries> suppose(FolderLayout layout) const;
  [[nodiscard]] std::int64_t count_files(const NameSeries& series) const;
  [[nodiscard]] std::int64_t count_in_blocks(const NameSeries& series) const;
  [[nodiscard]] std::optional<std::string> first_missing(const NameSeries& series) const;

  const AskedDirectory& directory_;
  PatternOptions given_;
  NameSeries series_;
};

void Discovery::require_no_folders() const {
  if (given_.folders <= 1 && given_.first_folder < 0 && given_.layout == FolderLayout::automatic) return;
  fail(ErrorCode::invalid_argument, "PatternOptions say of folders, and there is no {folder} in the pattern");
}

// The names of some files say how many there are: those in the directory of the first one.
void Discovery::find_total() {
  const NamePattern path = series_.pattern.through(NameField::total);
  const NamePattern above = path.above_last();
  std::map<std::int64_t, std::string> totals;  // of each, a name
  std::vector<std::string> looked_at;
  for (const std::int64_t folder : candidates(given_.first_folder)) {
    for (const std::int64_t index : candidates(given_.first_index)) {
      const std::string below = above.name({.index = index, .folder = folder});
      if (std::find(looked_at.begin(), looked_at.end(), below) != looked_at.end()) continue;
      looked_at.push_back(below);
      if (totals.empty() && (below.empty() || directory_.has_directory(below))) {
        note_totals(below, path.last(), totals);
      }
    }
  }
  if (totals.empty()) {
    fail(ErrorCode::not_found,
         fmt::format("none is in {}{}; check the pattern, or say how many there are in PatternOptions::files",
                     directory_.path(), looked_at.back()));
  }
  if (totals.size() > 1) {
    fail(ErrorCode::invalid_argument,
         fmt::format("{} and {} do not agree on how many files there are; say it in PatternOptions::files",
                     totals.begin()->second, totals.rbegin()->second));
  }
  series_.files = totals.begin()->first;
}

void Discovery::note_totals(const std::string& below, const NamePattern& component,
                            std::map<std::int64_t, std::string>& totals) const {
  const std::regex wanted = matcher(component);
  int width = 1;
  for (const NamePattern::Part& part : component.parts()) {
    if (part.field == NameField::total) width = part.width;
  }
  const Glance glance = directory_.glance(below, kMostNames);
  for (const auto* names : {&glance.files, &glance.folders}) {
    for (const std::string& name : *names) {
      std::smatch match;
      if (!std::regex_match(name, match, wanted) || match.length(1) > NamePattern::kMostWidth) continue;
      const std::int64_t total = std::stoll(match.str(1));
      if (total > 0 && match.str(1) == fmt::format("{:0{}}", total, width)) totals.emplace(total, name);
    }
  }
}

void Discovery::find_first(bool has_folders) {
  std::string asked;
  const std::vector<std::int64_t> folders =
      has_folders ? candidates(given_.first_folder) : std::vector<std::int64_t>{0};
  const std::vector<std::int64_t> indices = candidates(given_.first_index);
  for (const std::int64_t folder : folders) {
    for (const std::int64_t index : indices) {
      series_.first_folder = folder;
      series_.first_index = index;
      if (folders.size() * indices.size() == 1) return;  // validation asks for it
      const std::string name =
          series_.pattern.name({.index = index, .folder = folder, .total = series_.files});
      if (directory_.has_file(name)) return;
      asked += (asked.empty() ? "" : ", ") + name;
    }
  }
  fail(ErrorCode::not_found,
       fmt::format("none of {} is there; check the pattern, or say which is the first in "
                   "PatternOptions::first_index{}",
                   asked, has_folders ? " and first_folder" : ""));
}

void Discovery::find_folders() {
  series_.folders = given_.folders;
  if (series_.folders > 0) return;
  const NamePattern path = series_.pattern.through(NameField::folder);
  series_.folders = count_up([&](std::int64_t i) {
    return directory_.has_directory(path.name({.folder = series_.first_folder + i, .total = series_.files}));
  });
  if (series_.folders == 0) {
    fail_missing(path.name({.folder = series_.first_folder, .total = series_.files}));
  }
}

NameSeries Discovery::choose_layout() {
  find_folders();
  const FolderLayout said = given_.layout;
  if (said != FolderLayout::automatic && series_.files > 0) {
    if (const auto supposed = suppose(said)) return *supposed;
    fail(ErrorCode::invalid_argument,
         fmt::format("{} files cannot be shared out alike to {} folders", series_.files, series_.folders));
  }
  const std::vector<NameSeries> fitting = fitting_layouts();
  for (const NameSeries& series : fitting) {
    if (series.layout == said) return series;
  }
  for (const NameSeries& other : fitting) {
    if (said == FolderLayout::automatic && have_same_names(other, fitting[0])) continue;
    const bool is_said = said != FolderLayout::automatic;
    fail(ErrorCode::invalid_argument,
         fmt::format("they lie in {} folders as {} has them, and {} {}; mend PatternOptions::layout",
                     series_.folders, to_string(fitting[0].layout), is_said ? "not as" : "just as well as",
                     to_string(is_said ? said : other.layout)));
  }
  return fitting[0];
}

// At least one, and all of the same number of files: one that has fewer leaves out some that are there.
std::vector<NameSeries> Discovery::fitting_layouts() const {
  std::vector<NameSeries> fitting;
  std::string missing;
  for (const FolderLayout layout : kLayouts) {
    const std::optional<NameSeries> supposed = suppose(layout);
    if (!supposed) continue;
    if (const auto absent = first_missing(*supposed)) {
      missing += fmt::format("{}{} ({})", missing.empty() ? "" : ", ", *absent, to_string(layout));
    } else {
      fitting.push_back(*supposed);
    }
  }
  if (fitting.empty()) {
    fail(ErrorCode::not_found,
         fmt::format("in {} folders they lie in no known layout, which would have {}; check the pattern and "
                     "the numbers in PatternOptions, and where files are missing, say the layout there",
                     series_.folders, missing.empty() ? "the same number in each" : missing));
  }
  const auto most = std::max_element(fitting.begin(), fitting.end(),
                                     [](const auto& a, const auto& b) { return a.files < b.files; });
  std::erase_if(fitting, [files = most->files](const NameSeries& series) { return series.files < files; });
  return fitting;
}

std::optional<NameSeries> Discovery::suppose(FolderLayout layout) const {
  NameSeries series = series_;
  series.layout = layout;
  if (series.files == 0) series.files = count_files(series);
  if (series.files == 0) return std::nullopt;
  if (layout == FolderLayout::restart && series.files % series.folders != 0) return std::nullopt;
  return series;
}

std::int64_t Discovery::count_files(const NameSeries& series) const {
  if (series.layout == FolderLayout::blocks) return count_in_blocks(series);
  NameSeries endless = series;
  if (series.layout == FolderLayout::restart) {
    endless.folders = 1;
    endless.files = kMostFiles;
    return series.folders * count_up([&](std::int64_t i) { return has(endless, i); });
  }
  return count_up([&](std::int64_t i) { return has(endless, i); });
}

// Of N files in F folders, the first folder has c = ceil(N / F), and the last one those up to N - 1, at least
// c - 1: so that N is found by going down from c F in such steps to one of those, and up by halving.
std::int64_t Discovery::count_in_blocks(const NameSeries& series) const {
  const auto has_index = [&](std::int64_t folder, std::int64_t i) {
    return directory_.has_file(series.pattern.name(
        {.index = series.first_index + i, .folder = series.first_folder + folder, .total = series.files}));
  };
  const std::int64_t in_first = count_up([&](std::int64_t i) { return has_index(0, i); });
  if (in_first == 0 || in_first > kMostFiles / series.folders) return 0;
  const std::int64_t step = std::max<std::int64_t>(in_first - 1, 1);
  std::int64_t absent = in_first * series.folders;  // there are at most so many
  const std::int64_t least = std::max<std::int64_t>((in_first - 1) * series.folders - step, 0);
  for (std::int64_t i = absent - 1; i >= least; i -= step) {
    if (has_index(series.folders - 1, i)) {
      const std::int64_t from = i;
      return from + count_up([&](std::int64_t k) {
               return from + k < absent && has_index(series.folders - 1, from + k);
             });
    }
    absent = i;
  }
  return 0;
}

// The first of some telling names that is not there. The second and the last are always among them: see
// have_same_names.
std::optional<std::string> Discovery::first_missing(const NameSeries& series) const {
  const std::int64_t n = series.files;
  const std::int64_t in_folder = n / series.folders;
  std::vector<std::int64_t> telling = {
      0, 1, in_folder - 1, in_folder, series.folders - 1, series.folders, n / 2, n - 1};
  if (n <= kFewFiles) {
    telling.resize(static_cast<std::size_t>(n));
    std::iota(telling.begin(), telling.end(), 0);
  }
  for (const std::int64_t i : telling) {
    if (i < 0 || i >= n) continue;
    std::string name = series.name(i);
    if (!directory_.has_file(name)) return name;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t count_up(const std::function<bool(std::int64_t)>& is_there) {
  if (!is_there(0)) return 0;
  std::int64_t there = 0;
  std::int64_t absent = 1;
  while (absent < kMostFiles && is_there(absent)) {
    there = absent;
    absent *= 2;
  }
  while (absent - there > 1) {
    const std::int64_t middle = there + (absent - there) / 2;
    (is_there(middle) ? there : absent) = middle;
  }
  return absent;
}

NameSeries discover(const AskedDirectory& directory, const KnownNames& known) {
  return simplest(Discovery(directory, known).run());
}

}  // namespace rota
