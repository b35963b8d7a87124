#pragma once

// Epochs that draw samples of a dataset: some several times, some not at all. Next: read_plan.hpp.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "order/permutation.hpp"
#include "rota/fingerprint.hpp"
#include "rota/types.hpp"

namespace rota {
class Communicator;
}

namespace rota::internal {

/// Which sample each draw of each epoch is: computed, in any order. *Immutable*; copies share the sums.
class Draws {
 public:
  /// Each of `samples` so often in each epoch, in order, and behind them some once more: these go on from
  /// epoch to epoch, round and round through one keyed order, so that over any epochs no sample is drawn more
  /// than once more often than another. O(1).
  static Draws repeated(std::int64_t samples, double times, std::uint64_t seed);
  /// Each epoch `draws` of them, in proportion to `weights`: each as often as that says, rounded up or down.
  /// Systematic sampling: equal distances along the sum of weights, in a keyed order of samples. Where they
  /// begin moves by the golden ratio from epoch to epoch, so that rounding evens out. 8 bytes a sample, once
  /// on each node; O(log N) for each draw. **Collective** over `comm`. Both throw as the functions that they
  /// are for.
  static Draws weighted(const Communicator& comm, std::int64_t samples, std::span<const double> weights,
                        std::int64_t draws, std::uint64_t seed);

  /// Draws of an epoch, and what they are of.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t samples() const noexcept { return order_.size(); }
  [[nodiscard]] SampleId sample(SampleId draw, std::int64_t epoch) const noexcept;
  /// The same, and the draws of a sample in an epoch, ascending. Throw Error{out_of_range} for what there is
  /// not.
  [[nodiscard]] SampleId drawn(SampleId draw, std::int64_t epoch) const;
  [[nodiscard]] std::vector<SampleId> draws_of(SampleId sample, std::int64_t epoch) const;
  [[nodiscard]] Fingerprint fingerprint() const noexcept { return fingerprint_; }

 private:
  Draws(std::int64_t size, Permutation order, Fingerprint fingerprint)
      : size_(size), order_(order), fingerprint_(fingerprint) {}
  [[nodiscard]] std::int64_t total() const noexcept { return sums_.back(); }
  [[nodiscard]] std::int64_t begin(std::int64_t epoch) const noexcept;

  std::int64_t size_;
  Permutation order_;
  Fingerprint fingerprint_;
  std::uint64_t first_ = 0;  // of weights: where epoch 0 begins
  std::shared_ptr<const void> keep_ = {};
  std::span<const std::int64_t> sums_ = {};  // of weights before each sample in order, and of all
};

}  // namespace rota::internal
