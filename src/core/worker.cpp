#include "rota/worker.hpp"

#include <algorithm>
#include <utility>

#include "core/option.hpp"

namespace rota {

ShardList::ShardList(std::vector<ShardId> shards) : listed_(std::move(shards)), size_(std::ssize(listed_)) {
  std::ranges::sort(listed_);
}

ShardList ShardList::every(std::int64_t stride, std::int64_t first, std::int64_t total) {
  internal::OptionCheck("list shards").in_range("stride", stride, 1);
  ShardList list;
  list.first_ = first;
  list.stride_ = stride;
  list.size_ = first < total ? (total - first - 1) / stride + 1 : 0;
  return list;
}

bool ShardList::contains(ShardId shard) const noexcept {
  if (!listed_.empty()) return std::ranges::binary_search(listed_, shard);
  const std::int64_t past = shard.value - first_;
  return past >= 0 && past % stride_ == 0 && past / stride_ < size_;
}

bool operator==(const ShardList& a, const ShardList& b) noexcept {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace rota
