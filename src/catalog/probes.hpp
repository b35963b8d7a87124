#pragma once

// Whether the files of a series are there, and no more, as far as asking for some names tells.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalog/name_pattern.hpp"
#include "catalog/open_context.hpp"

namespace rota::internal {

/// Items of [0, n): the first, the last, and one at random of each of so many equal parts between them.
/// Such a sample meets a contiguous hole as long as two parts for certain. It meets a scattered hole at
/// least as probably as one that is drawn at random with replacement. *Immutable.*
class StratifiedSample {
 public:
  /// As many parts as the confidence and missing_fraction of `options` take, and at least 200, which is
  /// enough for a contiguous hole of 1 %. All items, where there are no more than that.
  StratifiedSample(std::int64_t items, const PatternOptions& options) noexcept;

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// The item at place 0 <= i < size(); ascending in i, none twice.
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept;

 private:
  std::int64_t items_;
  std::int64_t size_;
  std::uint64_t seed_;
};

/// What is asked for under a name.
enum class NameKind : std::uint8_t {
  readable_file,  ///< a regular file that this user may read
  file,           ///< a regular file
  directory,
};

/// A question, and the right answer.
struct Probe {
  NameNumbers numbers;
  NameKind kind = NameKind::readable_file;
  bool is_wanted = true;  ///< something must have that name; else nothing may
};

/// The questions for a series, by place: its files and folders (a sample of them); then the names just behind
/// and before those of each such folder; then such at growing distances behind the last number and before the
/// first, for files and for folders. *Immutable.*
class Probes {
 public:
  Probes(const NameSeries& series, const PatternOptions& options);

  [[nodiscard]] const NameSeries& series() const noexcept { return series_; }
  [[nodiscard]] std::int64_t size() const noexcept { return beyond_from() + std::ssize(beyond_); }
  /// How many of them ask for what must be there.
  [[nodiscard]] std::int64_t wanted() const noexcept { return files_.size() + folder_count_; }
  [[nodiscard]] Probe operator[](std::int64_t i) const noexcept;
  [[nodiscard]] std::string name(const Probe& probe) const;

 private:
  [[nodiscard]] std::int64_t beyond_from() const noexcept { return wanted() + 2 * folder_count_; }
  [[nodiscard]] NameNumbers beyond(std::int64_t i) const noexcept;
  [[nodiscard]] Probe beside(std::int64_t folder, bool is_behind) const noexcept;
  void add_beyond(std::int64_t distance);

  NameSeries series_;
  NamePattern folder_name_;
  std::int64_t in_folder_;  // indices, before they begin anew
  StratifiedSample files_;
  StratifiedSample folders_;
  std::int64_t folder_count_;  // of the sample; 0 where there are no folders
  std::vector<Probe> beyond_;
};

/// What has a name, where it is of another kind.
inline constexpr int kOtherKind = -1;

/// Asks for a name in one directory, symbolic links followed. Returns 0 where it is there, kOtherKind, or the
/// system's error number. Any thread.
using LookForName = std::function<int(const std::string& name, NameKind kind)>;

/// Asks so for `name`, relative to directory `at`.
int look_for(int at, const std::string& name, NameKind kind) noexcept;

/// **Collective** over `context`, whose ranks and threads share the work. Asks for the names of `probes` by
/// `look`, in the directory `shown`: empty, or ending in a slash; of a storage, more at a time. Throws on all
/// ranks Error{not_found} where some are missing, else Error{invalid_argument} where there are more files,
/// else Error{io} where some are forbidden or unreachable, naming the first three, and what is in the
/// directory of the first.
void validate_files(const OpenContext& context, const Probes& probes, const LookForName& look,
                    const std::string& shown, bool is_stored = false);

}  // namespace rota::internal
