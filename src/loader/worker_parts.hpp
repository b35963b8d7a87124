#pragma once

// Which worker of a rank reads what.

#include <cstddef>
#include <span>
#include <vector>

#include "order/order.hpp"
#include "rota/loader_options.hpp"
#include "rota/worker.hpp"

namespace rota::internal {

/// Samples [begin, end) of a rank's slice.
struct SlotRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The parts of each worker, or of the caller where there are none, of a slice whose samples are those of
/// `spans`, in order.
void deal(std::span<const ShardSpan> spans, const LoaderOptions& options, World world,
          std::vector<std::vector<SlotRange>>& parts);

/// What worker `worker` is told, of a dataset of so many shards.
[[nodiscard]] WorkerInfo describe_worker(int worker, std::int64_t shards, const LoaderOptions& options,
                                         World world);

}  // namespace rota::internal
