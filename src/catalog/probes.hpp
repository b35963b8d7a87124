#pragma once

// Which names are asked for, so that one is sure that the files of a series are there, and no more.

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/existence.hpp"
#include "catalog/pattern_listing.hpp"

namespace rota::internal {

/// How sure one is to be, see PatternOptions.
struct ProbeOptions {
  double confidence = 0.95;
  double missing_fraction = 0.001;
  std::uint64_t seed = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(confidence, missing_fraction, seed);
  }
};

/// Items of [0, n): the first, the last, and one at random of each of so many equal parts between them.
/// Such a sample meets a contiguous hole as long as two parts for certain. It meets a scattered hole at
/// least as probably as one that is drawn at random with replacement. *Immutable.*
class StratifiedSample {
 public:
  /// As many parts as `options` take, and at least 200, which is enough for a contiguous hole of 1 %.
  /// All items, where there are no more than that.
  StratifiedSample(std::int64_t items, const ProbeOptions& options) noexcept;

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// The item at place 0 <= i < size(); ascending in i, none twice.
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept;

 private:
  std::int64_t items_;
  std::int64_t size_;
  std::uint64_t seed_;
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
  Probes(const NameSeries& series, const ProbeOptions& options);

  [[nodiscard]] const NameSeries& series() const noexcept { return series_; }
  [[nodiscard]] std::int64_t size() const noexcept { return beyond_from() + std::ssize(beyond_); }
  /// How many of them ask for what must be there.
  [[nodiscard]] std::int64_t wanted() const noexcept { return files_.size() + folder_count_; }
  [[nodiscard]] Probe operator[](std::int64_t i) const noexcept;
  /// Puts the name of a probe at the end of `to`.
  void write(std::string& to, const Probe& probe) const;

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

}  // namespace rota::internal
