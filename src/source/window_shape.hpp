#pragma once

// Which windows a part has, which rows these, and how far an epoch moves them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/windows.hpp"

namespace rota::internal {

inline constexpr std::string_view kMakingWindows = "make windows";

/// A window's own row is the one from which offsets count. *Immutable.*
class WindowShape {
 public:
  /// Of all options but the episodes.
  explicit WindowShape(WindowOptions options)
      : options_(std::move(options)), skipped_(clamps() ? 0 : multiples(before_own())) {
    std::vector<std::int64_t>().swap(options_.episodes);
  }

  [[nodiscard]] const WindowOptions& options() const noexcept { return options_; }
  [[nodiscard]] bool clamps() const noexcept { return options_.edges == Edges::clamp; }
  [[nodiscard]] bool has_offsets() const noexcept { return !options_.offsets.empty(); }
  [[nodiscard]] bool moves() const noexcept { return options_.jitter > 0; }
  /// Of a window.
  [[nodiscard]] std::int64_t rows() const noexcept {
    return has_offsets() ? std::ssize(options_.offsets) : options_.length;
  }
  [[nodiscard]] std::int64_t offset(std::int64_t k) const noexcept {
    return has_offsets() ? options_.offsets[static_cast<std::size_t>(k)] : k;
  }
  /// How many windows a part of so many rows has.
  [[nodiscard]] std::int64_t count(std::int64_t rows_of_part) const noexcept {
    return before(std::max<std::int64_t>(rows_of_part - (clamps() ? 0 : behind_own()), 0));
  }
  /// How many windows have their own row before `row` of the part, were it long enough.
  [[nodiscard]] std::int64_t before(std::int64_t row) const noexcept {
    return std::max<std::int64_t>(multiples(row) - skipped_, 0);
  }
  /// The own row of a window, in the part, where nothing moves it.
  [[nodiscard]] std::int64_t own(std::int64_t window) const noexcept {
    return (window + skipped_) * options_.stride;
  }

  /// The first and the last row to which a window of a part of `rows_of_part` rows may move its own: those of
  /// windows of a stride of 1.
  struct Reach {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  [[nodiscard]] Reach reach(std::int64_t window, std::int64_t rows_of_part) const noexcept {
    const std::int64_t row = own(window);
    return {std::max(row - options_.jitter, clamps() ? 0 : before_own()),
            std::min(row + options_.jitter, rows_of_part - 1 - (clamps() ? 0 : behind_own()))};
  }
  /// The own row in an epoch; `id` is the window's among those of all parts.
  [[nodiscard]] std::int64_t own_in(std::int64_t epoch, std::int64_t id, std::int64_t window,
                                    std::int64_t rows_of_part) const noexcept;
  /// About how many rows there are to which a window may be moved.
  [[nodiscard]] double rows_around() const noexcept;

 private:
  // Of a window's rows, how far they are from its own.
  [[nodiscard]] std::int64_t before_own() const noexcept { return std::max<std::int64_t>(-offset(0), 0); }
  [[nodiscard]] std::int64_t behind_own() const noexcept {
    return std::max<std::int64_t>(offset(rows() - 1), 0);
  }
  // Of the stride, from 0 on before `row`.
  [[nodiscard]] std::int64_t multiples(std::int64_t row) const noexcept {
    return row / options_.stride + (row % options_.stride > 0 ? 1 : 0);
  }

  WindowOptions options_;
  std::int64_t skipped_;  // windows at a part's begin
};

}  // namespace rota::internal
