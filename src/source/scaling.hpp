#pragma once

// Numbers that are stored as others: scaled to small ones, with values that mean "missing".

#include <map>
#include <vector>

#include "rota/source.hpp"

namespace rota::internal {

/// A stored number times `scale`, plus `offset`, is what was meant; those of `missing` mean that there is
/// none.
struct Scaling {
  double scale = 1;
  double offset = -0.0;                   ///< which changes nothing, not even the sign of a zero
  std::vector<long double> missing = {};  ///< which hold integers of 64 bits, too

  friend bool operator==(const Scaling&, const Scaling&) = default;
};

/// A field whose samples are scaled, those of each file as it says.
struct ScaledField {
  DType dtype = DType::float32;    ///< of what was meant: float32 or float64
  std::vector<Scaling> scalings;   ///< by file
  std::vector<std::int64_t> ends;  ///< of their samples
};

/// `source` with what was meant, NaN where it is missing, in the fields that `scaled` names, of integers,
/// float32 or float64. Computed as float64, and rounded once. Whoever reads does it.
std::shared_ptr<const Source> unscale(const std::shared_ptr<const Source>& source,
                                      std::map<std::string, ScaledField> scaled);

}  // namespace rota::internal
