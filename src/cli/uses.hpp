#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rota/types.hpp"
#include "source/file_samples.hpp"

namespace rota::cli {

/// Which pieces of a dataset, such as files, each of some groups of ranks uses, and in which steps.
class Uses {
 public:
  /// `sizes` has the samples of each piece.
  explicit Uses(const std::vector<std::int64_t>& sizes) : spans_(sizes.size()), is_used_(sizes.size()) {
    for (const std::int64_t size : sizes) samples_.add(size);
  }
  /// The group at hand uses a sample. Returns its piece.
  std::size_t add(SampleId id, std::int64_t step) {
    last_ = samples_.find(id.value, last_).file;
    Span& span = spans_[last_];
    if (span.end == 0) pieces_.push_back(last_);
    span = {span.end == 0 ? step : std::min(span.begin, step), std::max(span.end, step + 1)};
    return last_;
  }
  void end_group() {
    std::vector<std::pair<std::int64_t, double>> changes;  // of the samples of pieces in use, by step
    for (const std::size_t piece : pieces_) {
      const Span span = std::exchange(spans_[piece], {});
      const auto samples = static_cast<double>(samples_.count(piece));
      changes.insert(changes.end(), {{span.begin, samples}, {span.end, -samples}});
      is_used_[piece] = true;
    }
    std::ranges::sort(changes);
    double pieces = 0;
    double samples = 0;
    for (const auto& [step, by] : changes) {
      most_at_once_ = std::max(most_at_once_, pieces += by > 0 ? 1 : -1);
      most_samples_ = std::max(most_samples_, samples += by);
    }
    count_ += static_cast<double>(pieces_.size());
    pieces_.clear();
  }

  /// Pieces that a group uses at once, and the samples of these; at most.
  [[nodiscard]] double most_at_once() const noexcept { return most_at_once_; }
  [[nodiscard]] double most_samples() const noexcept { return most_samples_; }
  /// Of each group the pieces that it uses.
  [[nodiscard]] double count() const noexcept { return count_; }
  /// The part of the pieces that are used at all.
  [[nodiscard]] double used() const {
    const auto used = static_cast<double>(std::ranges::count(is_used_, true));
    return used == 0 ? 1 : used / static_cast<double>(spans_.size());
  }
  /// As `count`, if all are used as those are.
  [[nodiscard]] double count_of_all() const { return count_ / used(); }

 private:
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  internal::FileSamples samples_;
  std::size_t last_ = 0;
  std::vector<Span> spans_;          // of each piece, in this group
  std::vector<std::size_t> pieces_;  // of this group
  std::vector<bool> is_used_;
  double count_ = 0;
  double most_at_once_ = 0;
  double most_samples_ = 0;
};

}  // namespace rota::cli
