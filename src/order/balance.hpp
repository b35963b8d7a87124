#pragma once

// What the slots of a batch cost. Next: dealer.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "order/dealer.hpp"
#include "rota/balance.hpp"
#include "rota/run.hpp"

namespace rota::internal {

/// linear x n + quadratic x n^2, in integers; so many of them make one of the user's.
struct Cost {
  std::int64_t linear = 0;
  std::int64_t quadratic = 0;
  double unit = 1;
  [[nodiscard]] bool is_any() const noexcept { return linear != 0 || quadratic != 0; }
};
/// Whole coefficients stay as they are; others as exact as a batch of so many samples,
/// none longer than `longest`, leaves room for.
[[nodiscard]] Cost quantise(const LengthColumn& column, std::int64_t longest, std::int64_t samples);

/// What ranks must have in common of how they split, a line for each.
[[nodiscard]] std::string describe(Split split, const Balance& balance);

/// Throws Error{invalid_argument} under Split::balanced from `balance.validate()`, and for lengths of another
/// number of samples; else for any balance.
void check(Split split, const Balance& balance, std::int64_t samples);

/// Deals batches in balance. Keeps its memory. *One thread.*
class BalancedBatch {
 public:
  /// The batch of all ranks, by slot. Throws Error{out_of_range} for costs beyond 2^62.
  void deal(const Balance& balance, const RunSlice& whole, int ranks);
  [[nodiscard]] int rank_of(std::size_t slot) const;
  /// This rank's slots into `out`, by micro-batch and slot, and what is known of the batch.
  void take(int rank, const RunSlice& whole, RunSlice& out) const;

 private:
  struct PartCost {
    std::int64_t sum = 0;
    std::int64_t largest = 0;
    std::int64_t count = 0;
    void add(std::int64_t cost) noexcept {
      sum += cost;
      largest = std::max(largest, cost);
      ++count;
    }
    [[nodiscard]] double cost(bool is_padded) const noexcept {
      return static_cast<double>(is_padded ? largest * count : sum);
    }
  };
  void price(const Lengths& lengths, const Cost& cost, const RunSlice& whole, std::size_t k);
  void count(int ranks);

  Dealer dealer_;
  std::size_t columns_ = 0;  // that cost something
  bool is_padded_ = false;
  double unit_ = 1;                   // costs of the first of these, in one of the user's
  std::vector<std::int64_t> costs_;   // [slots][columns]
  std::vector<std::int64_t> sums_;    // of each column of lengths
  std::int64_t largest_ = 0;          // cost of a slot
  double by_sample_ = 0;              // cost of the dearest slice
  std::vector<PartCost> part_costs_;  // [ranks][micro-batches]
};

}  // namespace rota::internal
