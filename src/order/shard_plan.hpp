#pragma once

// How a dataset is cut into logical shards. The cut is fixed for the life of a run. Next: permutation.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rota/types.hpp"

namespace rota::internal {

/// Cuts the index [0, N) into L logical shards of consecutive places, and those into interleave groups of G
/// consecutive shards. L has nothing to do with the number of ranks or workers and does not limit it.
///
/// An equal split is arithmetic and takes no memory; a ragged one takes 16 bytes a shard. A value: copies are
/// cheap and share what they hold. *Immutable.*
class ShardPlan {
 public:
  /// L parts whose lengths differ by at most one: shard s is [floor(s N / L), floor((s + 1) N / L)).
  /// `interleave` is G; 0, or anything above L, means one group of all shards.
  /// Throws Error{invalid_argument} unless 0 <= N <= kMaxCount, 1 <= L <= kMaxShards and
  /// interleave >= 0.
  static ShardPlan equal(std::int64_t samples, std::int64_t shards, std::int64_t interleave = 0);

  /// One shard of each of `lengths`, empty ones included. Throws Error{invalid_argument} as `equal` does, and
  /// for a negative length.
  static ShardPlan ragged(std::span<const std::int64_t> lengths, std::int64_t interleave = 0);

  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }
  [[nodiscard]] std::int64_t interleave() const noexcept { return interleave_; }
  [[nodiscard]] std::int64_t groups() const noexcept { return (shards_ + interleave_ - 1) / interleave_; }
  [[nodiscard]] bool is_equal() const noexcept { return ragged_ == nullptr; }

  /// Where shard s starts on the index; `begin(L)` is N.
  [[nodiscard]] std::int64_t begin(std::int64_t shard) const noexcept {
    return ragged_ ? ragged_->begins[static_cast<std::size_t>(shard)]
                   : shard * short_length_ + long_before(shard);
  }
  [[nodiscard]] std::int64_t length(std::int64_t shard) const noexcept {
    return begin(shard + 1) - begin(shard);
  }

  /// The shard that holds place `index` of [0, N). O(1) where equal, O(log L) where ragged.
  [[nodiscard]] ShardId shard_at(std::int64_t index) const noexcept;

  /// Shards [first, last) of group g.
  [[nodiscard]] std::int64_t group_first(std::int64_t group) const noexcept { return group * interleave_; }
  [[nodiscard]] std::int64_t group_last(std::int64_t group) const noexcept {
    return std::min(shards_, (group + 1) * interleave_);
  }
  /// Samples in group g.
  [[nodiscard]] std::int64_t group_samples(std::int64_t group) const noexcept {
    return begin(group_last(group)) - begin(group_first(group));
  }

  /// Equal split: the length of a short shard, and how many of the shards before `shard` have one sample
  /// more.
  [[nodiscard]] std::int64_t short_length() const noexcept { return short_length_; }
  [[nodiscard]] std::int64_t long_before(std::int64_t shard) const noexcept {
    // floor(shard r / L) by a multiplication; the reciprocal is rounded down, so it may be one short.
    __extension__ using u128 = unsigned __int128;
    const auto product = static_cast<std::uint64_t>(shard * long_shards_);
    const auto quotient = static_cast<std::uint64_t>((static_cast<u128>(product) * reciprocal_) >> 64);
    const auto divisor = static_cast<std::uint64_t>(shards_);
    return static_cast<std::int64_t>(quotient + (product - quotient * divisor >= divisor ? 1 : 0));
  }
  /// Equal split: the k-th longer shard, counted from 0; L where there are fewer.
  [[nodiscard]] std::int64_t long_shard(std::int64_t k) const noexcept;

  /// Ragged: the shards of group g, as offsets from its first, shortest first (ties by number).
  [[nodiscard]] std::span<const std::int32_t> by_length(std::int64_t group) const noexcept;

 private:
  struct Ragged {
    std::vector<std::int64_t> begins;     // [L + 1]
    std::vector<std::int32_t> by_length;  // [L], group after group
  };
  ShardPlan(std::int64_t samples, std::int64_t shards, std::int64_t interleave);

  std::int64_t samples_;
  std::int64_t shards_;
  std::int64_t interleave_;
  std::int64_t short_length_ = 0;
  std::int64_t long_shards_ = 0;
  std::uint64_t reciprocal_ = 0;  // floor((2^64 - 1) / L)
  std::shared_ptr<const Ragged> ragged_;
};

}  // namespace rota::internal
