#include "order/shard_plan.hpp"

#include <numeric>

#include "core/option.hpp"

namespace rota::internal {
namespace {

__extension__ using i128 = __int128;

constexpr OptionCheck kCheck("plan logical shards");

}  // namespace

ShardPlan::ShardPlan(std::int64_t samples, std::int64_t shards, std::int64_t interleave)
    : samples_(samples), shards_(shards), interleave_(interleave) {
  kCheck.in_range("the number of samples", samples, 0, kMaxCount);
  kCheck.in_range("the number of shards", shards, 1, kMaxShards);
  kCheck.in_range("interleave", interleave, 0, kUnbounded, "0 = all shards");
  if (interleave == 0 || interleave > shards) interleave_ = shards;
  short_length_ = samples / shards;
  long_shards_ = samples % shards;
  reciprocal_ = ~std::uint64_t{0} / static_cast<std::uint64_t>(shards);
}

ShardPlan ShardPlan::equal(std::int64_t samples, std::int64_t shards, std::int64_t interleave) {
  return {samples, shards, interleave};
}

ShardPlan ShardPlan::ragged(std::span<const std::int64_t> lengths, std::int64_t interleave) {
  auto ragged = std::make_shared<Ragged>();
  ragged->begins.reserve(lengths.size() + 1);
  ragged->begins.push_back(0);
  for (const std::int64_t length : lengths) {
    kCheck.in_range("a shard's length", length, 0, kMaxCount - ragged->begins.back(),
                    "all together have at most 2^62");
    ragged->begins.push_back(ragged->begins.back() + length);
  }
  ShardPlan plan(ragged->begins.back(), static_cast<std::int64_t>(lengths.size()), interleave);
  ragged->by_length.resize(lengths.size());
  for (std::int64_t g = 0; g < plan.groups(); ++g) {
    const auto first = static_cast<std::size_t>(plan.group_first(g));
    const auto block =
        std::span(ragged->by_length).subspan(first, static_cast<std::size_t>(plan.group_last(g)) - first);
    std::iota(block.begin(), block.end(), 0);
    std::ranges::stable_sort(block, {},
                             [&](std::int32_t s) { return lengths[first + static_cast<std::size_t>(s)]; });
  }
  plan.ragged_ = std::move(ragged);
  return plan;
}

ShardId ShardPlan::shard_at(std::int64_t index) const noexcept {
  if (ragged_) {
    const auto& begins = ragged_->begins;
    return {std::upper_bound(begins.begin(), begins.end(), index) - begins.begin() - 1};
  }
  // The last s with floor(s N / L) <= index.
  return {static_cast<std::int64_t>((i128{index + 1} * shards_ - 1) / samples_)};
}

std::int64_t ShardPlan::long_shard(std::int64_t k) const noexcept {
  if (k >= long_shards_) return shards_;
  // The first s with floor((s + 1) r / L) > k.
  return ((k + 1) * shards_ + long_shards_ - 1) / long_shards_ - 1;
}

std::span<const std::int32_t> ShardPlan::by_length(std::int64_t group) const noexcept {
  const auto first = static_cast<std::size_t>(group_first(group));
  return std::span(ragged_->by_length).subspan(first, static_cast<std::size_t>(group_last(group)) - first);
}

}  // namespace rota::internal
