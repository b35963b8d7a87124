#pragma once

// Who gets which slots of a batch, so that all have as much to do. Next: planner.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace rota::internal {

/// Columns of costs.
inline constexpr std::size_t kMostColumns = 16;

/// The parts that a batch is dealt to: `micro_batches` of each rank; or as many as it takes for each to cost
/// at most `limit`, or to be of one slot.
struct DealRule {
  std::int64_t ranks = 1;
  std::int64_t micro_batches = 1;
  std::int64_t limit = 0;        ///< in place of that, unless 0
  bool are_counts_equal = true;  ///< within one; not under a limit
  bool is_padded = false;        ///< a part costs as much as its costliest slot, times its slots
};

/// Deals the slots of a batch: the costliest first, ties by slot, to the part that has least and has a place
/// (Graham, *Bounds on multiprocessing timing anomalies*, 1969). Then the part that has most exchanges slots
/// with others, as long as it gets cheaper. Integers only: the same on every machine. Some O(n log n) for n
/// slots. *One thread.*
class Dealer {
 public:
  /// Slot i costs costs[i * columns + k], 0 or more, with a sum of up to 2^62 for each column. Of several
  /// columns the worst counts, each by its share; with padding there is one.
  void deal(std::span<const std::int64_t> costs, std::size_t columns, const DealRule& rule);

  [[nodiscard]] std::int64_t micro_batches() const noexcept { return micro_batches_; }
  /// [n]: who has each slot, as rank x micro_batches() + micro-batch.
  [[nodiscard]] std::span<const std::int32_t> parts() const noexcept { return part_of_; }

 private:
  struct Part {
    std::int64_t load = 0;   // of its worst column
    std::int64_t ahead = 0;  // of that, what it is only taken to have
    std::vector<std::int64_t> loads = {};
    std::vector<std::int32_t> slots = {};
  };
  struct Exchange {
    std::size_t mine = 0;
    std::size_t theirs = 0;  // past the last: none
    std::int64_t load = 0;   // of the worse of both, then
  };

  void weigh(std::span<const std::int64_t> costs, std::size_t columns);
  void aim_at(const DealRule& rule);
  void try_sums(std::int64_t parts, bool are_counts_equal);
  void exchange(bool are_counts_equal);
  [[nodiscard]] Exchange find(const Part& most, const Part& other, bool may_move) const;
  void carry_out(Part& most, Part& other, const Exchange& found);
  void add(Part& part, std::int32_t slot, int sign);
  [[nodiscard]] const std::int64_t* cost(std::int32_t slot) const {
    return &costs_[static_cast<std::size_t>(slot) * columns_];
  }
  void cut(std::int64_t parts, bool are_counts_equal);
  [[nodiscard]] std::int64_t count_cut(std::int64_t limit) const;
  [[nodiscard]] std::int64_t cut_end(std::int64_t begin, std::int64_t limit) const;
  void give_to_ranks(std::int64_t ranks, bool are_counts_equal);
  [[nodiscard]] std::int64_t least_parts(const DealRule& rule) const;

  std::size_t columns_ = 1;
  std::span<const std::int64_t> costs_;
  std::vector<std::int64_t> scaled_;  // of several columns: their costs, with equal sums
  std::int64_t total_ = 0;            // of each column
  std::vector<std::pair<std::int64_t, std::int32_t>> falling_;  // slots by what they cost at worst
  std::vector<Part> parts_;
  std::vector<std::pair<std::int64_t, std::int32_t>> heap_;
  std::vector<std::int32_t> by_load_;  // parts
  std::vector<std::int64_t> ahead_;    // of each micro-batch
  std::int64_t aim_ = 0;               // what each part is to have, with that
  std::vector<std::int32_t> part_of_;
  std::int64_t micro_batches_ = 1;
};

}  // namespace rota::internal
