#include "catalog/recognition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/error.hpp"

namespace rota {
namespace {

constexpr std::size_t kMostNames = 10'000;
constexpr std::string_view kAdvice = "give a pattern, such as img_{index:08}.npz";

/// Text and runs of digits by turns; there is one more text.
struct Split {
  std::vector<std::string> texts{1};
  std::vector<std::string> runs;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Split split(const std::string& name) {
  Split split;
  bool in_run = false;
  for (const char c : name) {
    if (is_digit(c) && !in_run) split.runs.emplace_back();
    if (!is_digit(c) && in_run) split.texts.emplace_back();
    in_run = is_digit(c);
    (in_run ? split.runs : split.texts).back().push_back(c);
  }
  if (in_run) split.texts.emplace_back();
  return split;
}

// Whether a number behind this text, which is not the first of its name, is that of all files.
bool tells_total(std::string_view text) {
  if (text.ends_with('_') || text.ends_with('-')) text.remove_suffix(1);
  if (!text.ends_with("of")) return false;
  text.remove_suffix(2);
  return text.empty() || text.back() == '_' || text.back() == '-' || text.back() == '.' || text.back() == ' ';
}

/// Names of one directory, of one series.
class Names {
 public:
  /// Whether there is one of this name.
  using Ask = std::function<bool(const std::string& name)>;

  /// `field` is what changes in them.
  Names(std::string shown, std::vector<std::string> names, bool are_all, NameField field)
      : shown_(std::move(shown)), names_(std::move(names)), are_all_(are_all) {
    std::sort(names_.begin(), names_.end());
    for (const std::string& name : names_) splits_.push_back(split(name));
    require_one_series();
    if (field == NameField::index) find_total();
    find_number();
    make_pattern(field);
  }

  [[nodiscard]] bool are_all() const noexcept { return are_all_; }
  [[nodiscard]] std::int64_t total() const noexcept { return total_; }
  [[nodiscard]] std::int64_t least() const noexcept { return numbers_.front(); }
  [[nodiscard]] std::int64_t most() const noexcept { return numbers_.back(); }
  /// Asks for names that tell which width it is, if it takes that.
  [[nodiscard]] NamePattern pattern(const Ask& ask) const;
  /// Where these are all names: that they are `count` from the first one on.
  void require_whole(std::int64_t count) const;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::invalid_argument, fmt::format("recognise the names in {}: {}", shown_, what));
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void require_one_series() const;
  void find_total();
  void find_number();
  [[nodiscard]] std::vector<std::size_t> numbers_that_change() const;
  void make_pattern(NameField field);
  [[nodiscard]] int width_told() const;
  [[nodiscard]] int least_width() const;
  [[nodiscard]] NamePattern with_width(int width) const;

  std::string shown_;
  std::vector<std::string> names_;
  bool are_all_;
  std::vector<Split> splits_;
  std::size_t total_run_ = kNone;
  std::size_t run_ = kNone;  // that changes
  std::int64_t total_ = 0;
  std::vector<std::int64_t> numbers_;
  std::vector<NamePattern::Part> parts_;
};

void Names::require_one_series() const {
  for (std::size_t i = 1; i < splits_.size(); ++i) {
    if (splits_[i].texts == splits_[0].texts) continue;
    fail(fmt::format("there are several series of them: {} and {}; {}", names_[0], names_[i], kAdvice));
  }
  if (splits_[0].runs.empty()) fail(fmt::format("{} has no number in it; {}", names_[0], kAdvice));
}

void Names::find_total() {
  for (std::size_t r = 1; r < splits_[0].runs.size(); ++r) {
    if (tells_total(splits_[0].texts[r])) total_run_ = r;
  }
  if (total_run_ == kNone) return;
  const std::string& total = splits_[0].runs[total_run_];
  for (std::size_t i = 1; i < splits_.size(); ++i) {
    if (splits_[i].runs[total_run_] == total) continue;
    fail(fmt::format("{} and {} do not agree on how many files there are; remove those of another dataset",
                     names_[0], names_[i]));
  }
  if (total.size() > NamePattern::kMostWidth) fail(fmt::format("the total of {} is too large", names_[0]));
  total_ = std::stoll(total);
  if (total_ == 0) fail(fmt::format("{} says that there are no files; {}", names_[0], kAdvice));
}

std::vector<std::size_t> Names::numbers_that_change() const {
  std::vector<std::size_t> found;
  for (std::size_t r = 0; r < splits_[0].runs.size(); ++r) {
    const bool changes = std::any_of(splits_.begin(), splits_.end(),
                                     [&](const Split& s) { return s.runs[r] != splits_[0].runs[r]; });
    if (changes) found.push_back(r);
  }
  if (!found.empty()) return found;
  // A single name: any number that is neither the total nor part of an extension.
  const auto has_dot = [&](std::size_t text) {
    return splits_[0].texts[text].find('.') != std::string::npos;
  };
  std::size_t stem = splits_[0].runs.size();
  for (std::size_t r = 1; r < splits_[0].runs.size(); ++r) {
    if (has_dot(r)) stem = std::min(stem, r);
  }
  for (std::size_t r = 0; r < stem; ++r) {
    if (r != total_run_) found.push_back(r);
  }
  return found;
}

void Names::find_number() {
  const std::vector<std::size_t> found = numbers_that_change();
  if (found.size() != 1) {
    fail(fmt::format("{} and {} have {} numbers any of which may be that of the file; {}", names_.front(),
                     names_.back(), found.size(), kAdvice));
  }
  run_ = found[0];
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    const std::string& digits = splits_[i].runs[run_];
    if (digits.size() > NamePattern::kMostWidth) {
      fail(fmt::format("the number of {} is too large; {}", names_[i], kAdvice));
    }
    numbers_.push_back(std::stoll(digits));
  }
  std::sort(numbers_.begin(), numbers_.end());
}

void Names::make_pattern(NameField field) {
  const auto& [texts, runs] = splits_[0];
  std::string text;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    text += texts[r];
    if (r == run_) {
      parts_.push_back({.text = std::exchange(text, {}), .field = field, .width = width_told()});
    } else if (r == total_run_) {
      const bool is_filled_up = runs[r].starts_with('0');
      parts_.push_back({.text = std::exchange(text, {}),
                        .field = NameField::total,
                        .width = is_filled_up ? static_cast<int>(runs[r].size()) : 1});
    } else {
      text += runs[r];
    }
  }
  parts_.push_back({.text = text + texts.back()});
}

int Names::least_width() const {
  const auto least = std::min_element(splits_.begin(), splits_.end(), [&](const Split& a, const Split& b) {
    return a.runs[run_].size() < b.runs[run_].size();
  });
  return static_cast<int>(least->runs[run_].size());
}

// 0: the names do not tell.
int Names::width_told() const {
  const int least = least_width();
  bool has_zeros = false;
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    const std::string& digits = splits_[i].runs[run_];
    if (digits.size() == 1 || !digits.starts_with('0')) continue;
    has_zeros = true;
    if (static_cast<int>(digits.size()) == least) continue;
    fail(fmt::format("the number of {} is filled up with zeros, and there are shorter ones; {}", names_[i],
                     kAdvice));
  }
  if (has_zeros) return least;
  // All there are: none that would show a difference.
  return are_all_ || least == 1 ? 1 : 0;
}

NamePattern Names::with_width(int width) const {
  std::vector<NamePattern::Part> parts = parts_;
  for (NamePattern::Part& part : parts) {
    if (part.width == 0) part.width = width;
  }
  return NamePattern(std::move(parts));
}

NamePattern Names::pattern(const Ask& ask) const {
  if (width_told() != 0) return NamePattern(parts_);
  std::vector<NamePattern> found;
  for (const int width : {1, least_width()}) {
    const NamePattern pattern = with_width(width);
    for (const std::int64_t first : {0, 1}) {
      if (!ask(pattern.name({.index = first, .folder = first, .total = total_}))) continue;
      found.push_back(pattern);
      break;
    }
  }
  if (found.size() == 1) return found[0];
  fail(fmt::format("it is unclear whether numbers shorter than that of {} are filled up with zeros; {}",
                   names_[0], kAdvice));
}

void Names::require_whole(std::int64_t count) const {
  const auto there = static_cast<std::int64_t>(numbers_.size());
  const bool are_too_many = there > count || most() - least() >= count;
  if (are_too_many && total_ > 0) {
    fail(
        fmt::format("they say that there are {} files, and there are {}, {} to {}; remove those that do not "
                    "belong to the dataset",
                    total_, there, names_.front(), names_.back()));
  }
  if (there == count) return;
  std::int64_t gap = least();
  for (const std::int64_t number : numbers_) gap += number == gap ? 1 : 0;
  throw Error(ErrorCode::not_found,
              fmt::format("recognise the names in {}: of {} files from {} on, {} are missing, the first is "
                          "number {}; restore them, or list the directory instead",
                          shown_, count, names_.front(), count - there, gap));
}

Names names_of_files(const AskedDirectory& directory, const std::string& below, Glance glance) {
  const std::string shown = directory.path() + below;
  if (!glance.files.empty() && !glance.folders.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("recognise the names in {}: there are files and directories: {} and {}; {}",
                            shown, glance.files[0], glance.folders[0], kAdvice));
  }
  if (glance.files.empty()) {
    throw Error(glance.folders.empty() ? ErrorCode::not_found : ErrorCode::invalid_argument,
                fmt::format("recognise the names in {}: it holds no file; {}", shown, kAdvice));
  }
  return {shown, std::move(glance.files), glance.is_whole, NameField::index};
}

// Takes over what names say of how many files there are.
void note_total(const Names& names, PatternOptions& options) {
  if (names.total() == 0) return;
  if (options.files > 0 && options.files != names.total()) {
    names.fail(fmt::format("they say that there are {} files, and PatternOptions::files {}; mend the option",
                           names.total(), options.files));
  }
  options.files = names.total();
}

KnownNames recognise_files(const AskedDirectory& directory, const Names& names, PatternOptions options) {
  const bool is_any_number = options.files == 0 && options.first_index < 0;
  note_total(names, options);
  if (names.are_all() && options.first_index < 0) options.first_index = names.least();
  if (names.are_all() && is_any_number) {
    if (options.files == 0) options.files = names.most() - names.least() + 1;
    names.require_whole(options.files);
  }
  return {.pattern = names.pattern([&](const std::string& name) { return directory.has_file(name); }),
          .options = options};
}

// The number of the first folder.
std::int64_t find_first_folder(const AskedDirectory& directory, const Names& names,
                               const NamePattern& pattern, const PatternOptions& given) {
  if (given.first_folder >= 0) return given.first_folder;
  if (names.are_all()) return names.least();
  for (const std::int64_t first : {0, 1}) {
    if (directory.has_directory(pattern.name({.folder = first}))) return first;
  }
  names.fail(fmt::format("there are very many folders, and none has number 0 or 1; {}", kAdvice));
}

KnownNames recognise_folders(const AskedDirectory& directory, Glance glance, PatternOptions options) {
  const Names folders(directory.path(), std::move(glance.folders), glance.is_whole, NameField::folder);
  const NamePattern pattern =
      folders.pattern([&](const std::string& name) { return directory.has_directory(name); });
  const bool is_any_number = options.folders == 0 && options.first_folder < 0;
  options.first_folder = find_first_folder(directory, folders, pattern, options);
  if (folders.are_all() && is_any_number) {
    options.folders = folders.most() - folders.least() + 1;
    folders.require_whole(options.folders);
  }
  const std::string first = pattern.name({.folder = options.first_folder}) + '/';
  const Names names = names_of_files(directory, first, directory.glance(first, kMostNames));
  note_total(names, options);
  if (names.are_all() && options.first_index < 0) options.first_index = names.least();
  const NamePattern last =
      names.pattern([&](const std::string& name) { return directory.has_file(first + name); });
  return {.pattern = pattern + NamePattern({{.text = "/"}}) + last, .options = options};
}

}  // namespace

KnownNames recognise(const AskedDirectory& directory, const PatternOptions& given) {
  Glance glance = directory.glance("", kMostNames);
  if (glance.files.empty() && !glance.folders.empty()) {
    return recognise_folders(directory, std::move(glance), given);
  }
  return recognise_files(directory, names_of_files(directory, "", std::move(glance)), given);
}

}  // namespace rota
