#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rota::internal {

/// A set of small integers with rank and select: one bit each, and a Fenwick tree (Fenwick, "A New Data
/// Structure for Cumulative Frequency Tables", 1994) over the counts of its 64-bit words. 0.2 bytes a member.
/// One thread.
class AliveSet {
 public:
  /// Becomes the members of [0, size) for which `is_member` holds. O(size).
  template <typename Predicate>
  void assign(std::int64_t size, Predicate is_member) {
    size_ = size;
    words_.assign(static_cast<std::size_t>((size + 63) / 64), 0);
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_member(i)) words_[static_cast<std::size_t>(i >> 6)] |= std::uint64_t{1} << (i & 63);
    }
    build();
  }

  /// Removes a member. O(log size).
  void remove(std::int64_t member) noexcept;

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Members below `value`, 0 <= value <= size. O(log size).
  [[nodiscard]] std::int64_t rank(std::int64_t value) const noexcept;
  /// The member with `rank` members below it; size where there is none. O(log size).
  [[nodiscard]] std::int64_t select(std::int64_t rank) const noexcept;
  /// The first member >= value; size where there is none. O(1) where members are dense, else O(log size).
  [[nodiscard]] std::int64_t next(std::int64_t value) const noexcept {
    if (value >= size_) return size_;
    const auto word = static_cast<std::size_t>(value >> 6);
    const std::uint64_t bits = words_[word] >> (value & 63);
    return bits != 0 ? value + std::countr_zero(bits) : next_after_word(word);
  }

 private:
  void build();
  [[nodiscard]] std::int64_t next_after_word(std::size_t word) const noexcept;

  std::int64_t size_ = 0;
  std::int64_t count_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::int32_t> tree_;  // tree_[i] counts words (i - lowbit(i), i], from 1
};

}  // namespace rota::internal
