#pragma once

// Which dataset has its turn, where several are mixed by weight. Pure arithmetic, the same on every rank. The
// datasets come in with loader.hpp. Next: fingerprint.hpp, source.hpp.

#include <cstdint>
#include <span>
#include <vector>

namespace rota {

/// When a mixture is over. A dataset is exhausted when LoaderOptions::epochs passes over it are complete; one
/// that is exhausted before the mixture is over begins anew. Datasets of weight 0 are not looked at.
enum class MixtureEnd {
  first_exhausted,  ///< with the last sample of the first dataset that is exhausted
  all_exhausted,    ///< with the last sample of the last one
  steps,            ///< after Mixture::steps steps
};

/// Where a mixture stands: what it knows besides the Position, which is in epoch 0 throughout and counts the
/// samples of the run.
struct MixtureState {
  std::vector<std::int64_t> weights =
      {};                                 ///< quantised: of as many samples as their sum, weights[d] are of d
  std::int64_t changed_at = 0;            ///< samples of the run before weights were last set
  std::vector<std::int64_t> counts = {};  ///< samples of each dataset among those
  friend bool operator==(const MixtureState&, const MixtureState&) = default;
};

/// Integers with a sum of at most 65,536, near the ratios of `weights`: those with the smallest sum where
/// ratios are exact (within 1e-9), else those whose worst relative error is smallest. Positive weights become
/// at least 1, however small they are. Throws Error{invalid_argument} unless there are 1 to 4,096 weights
/// with a finite sum, none below 0 and one above.
std::vector<std::int64_t> quantise(std::span<const double> weights);

}  // namespace rota
