#pragma once

// The same batches, dealt to ranks so that all have as much to do. Next: loader_options.hpp.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rota/fingerprint.hpp"
#include "rota/types.hpp"

namespace rota {

class Communicator;
class Source;

/// How long each sample of a dataset is: a number, 0 or more. 4 bytes a sample, or 8 where one is 2^31 or
/// longer. Copies share them. *Immutable.*
class Lengths {
 public:
  /// None.
  Lengths() = default;
  /// A copy. Throws Error{invalid_argument} for a length below 0, naming its sample.
  explicit Lengths(std::span<const std::int64_t> lengths);
  explicit Lengths(std::span<const std::int32_t> lengths);
  /// Of memory that `keep` keeps, without a copy; it must not change.
  Lengths(std::shared_ptr<const void> keep, std::span<const std::int64_t> lengths);
  Lengths(std::shared_ptr<const void> keep, std::span<const std::int32_t> lengths);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Of sample `id`, which must be one.
  [[nodiscard]] std::int64_t operator[](SampleId id) const noexcept {
    const auto at = static_cast<std::size_t>(id.value);
    return narrow_ != nullptr ? narrow_[at] : wide_[at];
  }
  /// Has memory look it up while others are asked for.
  void prefetch(SampleId id) const noexcept {
    const auto at = static_cast<std::size_t>(id.value);
    narrow_ != nullptr ? __builtin_prefetch(narrow_ + at) : __builtin_prefetch(wide_ + at);
  }
  /// The longest; 0 of none.
  [[nodiscard]] std::int64_t most() const noexcept { return most_; }
  [[nodiscard]] Fingerprint digest() const noexcept { return digest_; }

 private:
  template <typename T>
  void take(std::span<const T> lengths);

  std::shared_ptr<const void> keep_;
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t most_ = 0;
  Fingerprint digest_;
};

/// Those of ragged field `field` of `source`: its rows. They are asked for once on each node, by all ranks
/// and `threads` of each together, and kept in memory that these share. **Collective** over `comm`; without
/// it, this process does all the work. Throws on all ranks what it throws on one:
/// - what Source::rows throws
/// - Error{not_found}: no such field; Error{invalid_argument}: it is not ragged
/// - Error{mismatch}: another number of samples, or other lengths, on another rank
/// - Error{callback}: an impossible number of rows; Error{io}: no memory for them
Lengths lengths_of(const Communicator& comm, const Source& source, const std::string& field, int threads = 8);
Lengths lengths_of(const Source& source, const std::string& field, int threads = 8);

/// Of an NPY file of one dimension, of int32 or int64: mapped into memory, which ranks of a node share.
/// Throws Error{not_found}, Error{io}, Error{corrupt} as files do, Error{unsupported} for another type or
/// shape, Error{invalid_argument} for a length below 0.
Lengths read_lengths(const std::string& path);

/// One number of each sample, and what the sample costs by it: linear x n + quadratic x n^2. Of both 0 it
/// costs nothing, and is only summed: tokens that count in a loss, say.
struct LengthColumn {
  std::string field = {};  ///< a ragged field of the source, whose rows it is; a loader asks for them
  Lengths lengths = {};    ///< or these
  double linear = 1;
  double quadratic = 0;
};

/// How Split::balanced deals a global batch. All batches stay as they are: only who has which slot changes,
/// so a run may go on with another balance, in another world, or without.
///
///     options.rank_split = rota::Split::balanced;
///     options.balance = {.columns = {{.field = "tokens", .linear = 8192, .quadratic = 1}}};
///
/// Costs are integers: coefficients that are not whole are rounded to 31 binary digits of the larger one. So
/// every machine deals alike. A step costs each rank O(B log B), for a global batch of B.
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
