#pragma once

// The same batches, dealt to ranks so that all have as much to do. Next: loader_options.hpp.

#include <cstdint>
#include <string>
#include <vector>

#include "rota/lengths.hpp"

namespace rota {

/// One number of each sample, and what the sample costs by it: linear x n + quadratic x n^2. Of both 0 it
/// costs nothing, and is only summed: tokens that count in a loss, say.
struct LengthColumn {
  std::string field = {};  ///< a ragged field of the source, whose rows it is; a loader asks for them
  Lengths lengths = {};    ///< or these; with a field, what is read of that must agree
  double linear = 1;
  double quadratic = 0;
  friend bool operator==(const LengthColumn&, const LengthColumn&) = default;
};

/// How Split::balanced deals a global batch. All batches stay as they are: only who has which slot changes,
/// so a run may go on with another balance, in another world, or without.
///
///     options.rank_split = rota::Split::balanced;
///     options.balance = {.columns = {{.field = "tokens", .linear = 8192, .quadratic = 1}}};
///
/// Costs are integers: coefficients that are not whole are rounded, to up to 31 binary digits of the larger
/// one. So every machine deals alike. A step costs each rank O(B log B), for a global batch of B.
struct Balance {
  /// Of several that cost something, the worst of a rank is made small, each by its share. 1 to 16.
  std::vector<LengthColumn> columns = {};
  /// Ranks, and their micro-batches, have as many samples each, within one.
  bool equal_counts = true;
  /// Parts of each rank's slice, of which the m-th cost about the same on all ranks. 1 to 65,536.
  std::int64_t micro_batches = 1;
  /// In place of that: as many, the same on all ranks, as it takes for each to cost at most this much; a
  /// sample that costs more is alone. Counts are not equal then. 0: `micro_batches` of them.
  double micro_cost = 0;
  /// A micro-batch costs as much as its costliest sample, times its samples. Of one column.
  bool padded = false;
  friend bool operator==(const Balance&, const Balance&) = default;

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// What a batch costs under Split::balanced, by the first column that costs something.
struct BatchCosts {
  double global = 0;          ///< of all ranks
  double rank = 0;            ///< of this one
  double most = 0;            ///< of the rank that has most
  double most_by_sample = 0;  ///< the same under Split::by_sample
  double largest = 0;         ///< of one sample: no rank that has it can have less
  friend bool operator==(const BatchCosts&, const BatchCosts&) = default;
};

}  // namespace rota
