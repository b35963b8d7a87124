#include "stream/shard_feed.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

namespace rota::internal {
namespace {

// The mean of the known weights, at least 1; halves are added by parts, so that no sum overflows.
std::int64_t mean_of(std::span<const std::int64_t> weights) {
  double sum = 0;
  std::int64_t known = 0;
  for (const std::int64_t weight : weights) {
    if (weight == kUnknownWeight) continue;
    sum += static_cast<double>(weight);
    ++known;
  }
  return known == 0 ? 1
                    : std::max<std::int64_t>(1, static_cast<std::int64_t>(sum / static_cast<double>(known)));
}

struct Load {
  double weight = 0;
  std::int64_t shards = 0;
  int rank = 0;
  friend bool operator>(const Load& a, const Load& b) {
    return std::tie(a.weight, a.shards, a.rank) > std::tie(b.weight, b.shards, b.rank);
  }
};

}  // namespace

std::vector<int> share_out(std::span<const std::int64_t> weights, int ranks) {
  const std::int64_t mean = mean_of(weights);
  const auto weight_of = [&](std::size_t s) { return weights[s] == kUnknownWeight ? mean : weights[s]; };
  std::vector<std::size_t> heaviest(weights.size());
  std::iota(heaviest.begin(), heaviest.end(), std::size_t{0});
  std::ranges::stable_sort(heaviest, std::greater<>(), weight_of);

  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int rank = 0; rank < ranks; ++rank) loads.push({.weight = 0, .shards = 0, .rank = rank});
  std::vector<int> owners(weights.size());
  for (const std::size_t s : heaviest) {
    Load least = loads.top();
    loads.pop();
    owners[s] = least.rank;
    least.weight += static_cast<double>(weight_of(s));
    ++least.shards;
    loads.push(least);
  }
  return owners;
}

}  // namespace rota::internal
