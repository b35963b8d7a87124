#pragma once

// The turns inside one interleave group. Round p takes position p of every shard that still has one; a
// Frontier is the edge between the turns that were taken and those that were not. EqualTurns and RaggedTurns
// answer the same questions, one by closed formulas, one with a set of the shards still alive.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "order/order.hpp"
#include "order/shard_plan.hpp"

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

/// All rounds below `round` are over; in round `round`, the shards below `shard` have had their turn.
struct Frontier {
  std::int64_t round = 0;
  std::int64_t shard = 0;

  /// The cursor of shard `s` of `length` samples.
  [[nodiscard]] std::int64_t cursor(std::int64_t s, std::int64_t length) const noexcept {
    return length <= round ? length : round + (s < shard ? 1 : 0);
  }
};

/// What a range of turns takes of one shard: positions [begin, end).
struct PositionRange {
  std::int64_t shard = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The stretch of turns [begin, end) of one group, in canonical order: by shard, then by position. Made by
/// `load`. Shards are numbered in the whole plan.
class EqualTurns {
 public:
  explicit EqualTurns(ShardPlan plan) : plan_(std::move(plan)) {}
  void load(std::int64_t group, std::int64_t begin, std::int64_t end);

  [[nodiscard]] const Frontier& begin() const noexcept { return begin_; }
  /// From slot `slot` of the range on, 0 <= slot < end - begin: the rest of what it takes of that slot's
  /// shard.
  [[nodiscard]] PositionRange find(std::int64_t slot) const noexcept;
  /// What it takes of the next shard after `shard` of which it takes anything.
  [[nodiscard]] PositionRange next(std::int64_t shard) const noexcept;

 private:
  [[nodiscard]] Frontier locate(std::int64_t turns) const noexcept;
  [[nodiscard]] std::int64_t cursor(const Frontier& frontier, std::int64_t shard) const noexcept;
  [[nodiscard]] std::int64_t next_shard(std::int64_t shard) const noexcept;
  [[nodiscard]] std::int64_t taken_before(const Frontier& frontier, std::int64_t shard) const noexcept;

  ShardPlan plan_;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  Frontier begin_;
  Frontier end_;
};

/// The same for any lengths. Going forward costs O(log L) for every shard that ends; `load` of another group
/// or of an earlier turn costs O(shards of the group).
class RaggedTurns {
 public:
  explicit RaggedTurns(ShardPlan plan) : plan_(std::move(plan)) {}
  void load(std::int64_t group, std::int64_t begin, std::int64_t end);

  [[nodiscard]] const Frontier& begin() const noexcept { return begin_; }
  [[nodiscard]] PositionRange find(std::int64_t slot) const noexcept;
  [[nodiscard]] PositionRange next(std::int64_t shard) const noexcept;

 private:
  // How far the rounds have come: the shards of by_length [0, dead) have ended, with `dead_samples` in all.
  struct Rounds {
    std::int64_t dead = 0;
    std::int64_t dead_samples = 0;
    std::int64_t round = 0;
    std::int64_t turn = 0;  // turns taken in this round
  };
  [[nodiscard]] std::int64_t length(std::int64_t offset) const noexcept {
    return plan_.length(first_ + offset);
  }
  void advance(Rounds& rounds, std::int64_t turns) const noexcept;
  void enter(std::int64_t group, std::int64_t turns);
  [[nodiscard]] std::int64_t select_at_end(std::int64_t rank) const noexcept;
  [[nodiscard]] PositionRange take(std::int64_t offset) const noexcept;

  ShardPlan plan_;
  std::int64_t group_ = -1;
  std::int64_t first_ = 0;
  std::int64_t size_ = 0;
  Rounds now_;                        // at the begin of the range
  AliveSet alive_;                    // shards that have a turn in or after round now_.round, as offsets
  std::vector<std::int32_t> ending_;  // shards that end inside the range, as ascending offsets
  std::int64_t begin_turns_ = 0;
  std::int64_t end_turns_ = -1;
  Frontier begin_;
  Frontier end_;
};

using Turns = std::variant<EqualTurns, RaggedTurns>;
/// Appends slots [slot, slot + count) of the range that `turns` has loaded, as spans of the epoch, kind
/// and dataset of `like`.
void append_spans(const Turns& turns, const ShardSpan& like, std::int64_t slot, std::int64_t count,
                  std::vector<ShardSpan>& out);

}  // namespace rota::internal
