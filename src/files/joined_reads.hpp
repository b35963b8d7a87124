#pragma once

// Which ranges of files one read brings.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace rota::internal {

/// Ranges of files, those of a file side by side and by offset, as reads: one for all that nearly touch, or
/// several for one that is long. `Wanted` has a `file`, an `offset` in it, and memory `to` go to.
template <typename Wanted>
class JoinedReads {
 public:
  struct Limits {
    std::uint64_t gap = 0;  ///< so many bytes between two ranges are read, too
    std::uint64_t bytes =
        std::numeric_limits<std::uint64_t>::max();  ///< that are joined; longer ranges are cut
    std::uint64_t part = std::numeric_limits<std::uint64_t>::max();  ///< into parts of so many
    std::size_t ranges = std::numeric_limits<std::size_t>::max();    ///< that are joined
    std::uint64_t unit = 1;  ///< a power of two; reads begin and end at multiples of it
  };
  /// Bytes [begin, end) of the file of these ranges, which all begin before `end`.
  struct Read {
    std::span<Wanted> wanted;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  JoinedReads(std::span<Wanted> wanted, const Limits& limits) noexcept : limits_(limits), rest_(wanted) {}

  /// Nothing once all were given.
  [[nodiscard]] std::optional<Read> next() noexcept {
    while (joined_.begin == joined_.end) {
      if (rest_.empty()) return std::nullopt;
      join();
    }
    Read read = joined_;
    if (read.end - read.begin > part_) read.end = read.begin + part_;
    joined_.begin = read.end;
    return read;
  }
  /// Whether `next` has nothing more, where ranges are not empty.
  [[nodiscard]] bool is_over() const noexcept { return rest_.empty() && joined_.begin == joined_.end; }

 private:
  void join() noexcept {
    const std::uint64_t within = limits_.unit - 1;
    const auto end_of = [&](const Wanted& one) { return (one.offset + one.to.size() + within) & ~within; };
    joined_.begin = rest_[0].offset & ~within;
    joined_.end = end_of(rest_[0]);
    std::size_t count = 1;
    for (; count < std::min(rest_.size(), limits_.ranges); ++count) {
      const Wanted& next = rest_[count];
      const std::uint64_t end = std::max(joined_.end, end_of(next));
      if (next.file != rest_[0].file || next.offset > joined_.end + limits_.gap) break;
      if (end - joined_.begin > limits_.bytes) break;
      joined_.end = end;
    }
    part_ = joined_.end - joined_.begin > limits_.bytes ? limits_.part : limits_.bytes;
    joined_.wanted = rest_.first(count);
    rest_ = rest_.subspan(count);
  }

  Limits limits_;
  std::span<Wanted> rest_;
  Read joined_;             // what is left of it
  std::uint64_t part_ = 0;  // of it
};

}  // namespace rota::internal
