#pragma once

// All ranks must save the same tensors, in the same order.

#include <cstdint>
#include <span>

#include "collectives.hpp"
#include "snapshot_data.hpp"

namespace rota::checkpoint {

/// **Collective.** Throws Error{invalid_argument} on all ranks, naming the first difference, unless they all
/// have the same `step` and the same tensors but for their rows.
void require_same_schema(Collectives& ranks, std::span<const LocalTensor> tensors, std::int64_t step);

}  // namespace rota::checkpoint
