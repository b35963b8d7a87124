#pragma once

// Names that are written with braces: of words and ranges, which are written out, or of numbers that are
// counted, from which names are computed; and whether files that are named so are there, as far as probes
// show.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/open_context.hpp"
#include "rota/catalog.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {

/// The numbers that make a name of a pattern. Index and folder count from 0, wherever the names begin.
struct NameNumbers {
  std::int64_t index = 0;
  std::int64_t folder = 0;
  std::int64_t total = 0;
};
/// Of which number a field is.
using NameField = std::int64_t NameNumbers::*;

/// A brace of a name, and the text before it.
struct NamePart {
  std::string text = {};
  std::size_t begin = std::string::npos;  ///< of the brace, in the name; npos: none follows the text
  std::size_t end = 0;                    ///< behind it
  NameField field = nullptr;              ///< of "{index+1:08}"; null: "{000..999}" or "{train,test}"
  std::int64_t first = 0;                 ///< what number 0 is
  std::int64_t last = 0;                  ///< of a range
  int width = 1;                          ///< at least so many digits
  std::vector<std::string> words = {};    ///< in place of numbers
};

/// Where the first range of numbers, "shard-{000000..000999}.tar", or of words, "{train,test}.tar", begins;
/// npos without any. Throws Error{invalid_argument} for a range that goes backward.
std::size_t find_range(std::string_view text);

/// How many names the ranges of `text` stand for.
double count_names(std::string_view text);

/// Calls `visit` for each of them, in order; the last range changes fastest. Numbers have as many digits as
/// the first of their range. Throws as find_range.
void expand_ranges(const std::string& text, const std::function<void(const std::string& name)>& visit);

/// Text and fields by turns. *Immutable.*
class NamePattern {
 public:
  NamePattern() = default;
  /// As a user writes it: `{index}`, `{index:08}`, `{index+1:08}`, `{folder}`, `{total}`; `{{` and `}}` for
  /// braces. Throws Error{invalid_argument} naming what is wrong with it.
  explicit NamePattern(std::string text);
  /// Throws Error{invalid_argument} unless it names files: one index, and folders above it.
  void require_names() const;
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] bool has(NameField field) const noexcept { return begin_of(field) != std::string::npos; }
  /// The path up to the end of the component that has the first such field; all of it where there is none.
  [[nodiscard]] NamePattern through(NameField field) const {
    return NamePattern(text_.substr(0, text_.find('/', begin_of(field))));
  }
  /// Where, in the text, the component with the first field begins.
  [[nodiscard]] std::size_t below_directory() const { return text_.rfind('/', parts_.front().begin) + 1; }

  /// Empty where a number in it would be negative.
  [[nodiscard]] std::string name(const NameNumbers& numbers) const;
  /// What {total} is in a name of this pattern; 0 for any other.
  [[nodiscard]] std::int64_t total_in(const std::string& name) const;

 private:
  [[nodiscard]] std::size_t begin_of(NameField field) const noexcept;

  std::string text_;
  std::vector<NamePart> parts_ = std::vector<NamePart>(1);
};

/// All that makes the names of files. Their order is by index; where each folder counts anew, by folder and
/// then by index.
struct NameSeries {
  NamePattern pattern;  ///< relative to a directory
  std::int64_t files = 0;
  std::int64_t folders = 1;
  FolderLayout layout = FolderLayout::round_robin;

  [[nodiscard]] std::string name(std::int64_t i) const {
    return pattern.name({.index = i % indices(), .folder = folder_of(i), .total = files});
  }
  /// The folder of file i, and the one of a file before the first or behind the last.
  [[nodiscard]] std::int64_t folder_of(std::int64_t i) const noexcept;
  /// How many indices there are, before they begin anew.
  [[nodiscard]] std::int64_t indices() const noexcept {
    return layout == FolderLayout::restart ? files / folders : files;
  }
  /// The index of the file that would be next in a folder.
  [[nodiscard]] std::int64_t next_in(std::int64_t folder) const noexcept;
  /// Of the pattern and the numbers, not of each name: another than that of the same files when listed.
  [[nodiscard]] Fingerprint fingerprint() const;
};

/// Of [0, items), ascending: the first, the last, and one at random of each of 2,995 equal parts between
/// them; or all, where there are no more. That meets a contiguous hole as long as two parts for certain. It
/// meets scattered holes of one item in 1,000 with a probability of 95 % at least.
std::vector<std::int64_t> stratified_sample(std::int64_t items);

/// Something to look for: a regular file that this user may read, or a directory.
struct Probe {
  std::string name;
  bool is_directory = false;
  bool is_surplus = false;  ///< nothing may have that name; else something must
};

/// What is looked for, nothing twice: a sample of the files; a sample of the folders, and what would be next
/// in each of these; then names behind the last number and before the first, of files and of folders, 8 one
/// by one and others at distances that double.
std::vector<Probe> make_probes(const NameSeries& series);

/// Asks for a probe in one directory, symbolic links followed. Returns 0 where it is there, -1 where it is of
/// another kind, or the system's error number. Any thread.
using AskForName = std::function<int(const Probe& probe)>;

/// **Collective** over `context`, whose ranks and threads, `threads` at least, share the work. Asks for the
/// probes of `series` in the directory `shown`: empty, or ending in a slash. Throws for the first wrong
/// answer, with a look at what is there: Error{not_found} for what is missing, Error{io} for what cannot be
/// read, Error{invalid_argument} where there are more files.
void validate_files(const OpenContext& context, const NameSeries& series, const std::string& shown,
                    int threads, const AskForName& ask);

}  // namespace rota::internal
