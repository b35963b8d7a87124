#include "stream/dispatch_plan.hpp"

#include <algorithm>

namespace rota::internal {

std::vector<DispatchPlan::Slot> DispatchPlan::slots(std::int64_t first, std::int64_t count) const {
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(count));
  // Adds the items of the shards of items begin, ..., end - 1, the next of a shard being `shards` further on.
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t start = begin; start < end; ++start) {
      for (std::int64_t i = start; i < count; i += shards) slots.push_back({.item = i});
    }
  };
  const std::int64_t present = std::min(count, shards);
  const std::int64_t wrapped = std::min(present, shards - first % shards);  // the first one of shard 0
  add(wrapped, present);
  add(0, wrapped);
  int rank = 0;
  for (std::int64_t at = 0; at < count; ++at) {
    while (at == share(count, rank + 1, ranks)) ++rank;
    Slot& slot = slots[static_cast<std::size_t>(at)];
    slot.rank = split == Split::by_sample ? rank : static_cast<int>((first + slot.item) % shards % ranks);
  }
  return slots;
}

}  // namespace rota::internal
