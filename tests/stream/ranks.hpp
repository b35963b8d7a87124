#pragma once

// What all ranks do together with streams, and what all of them have seen.

#include "all_of_ranks.hpp"
#include "stream/dispatched.hpp"

namespace rota::test {

/// Of a source that ranks other than 0 do not have.
inline Dispatch dispatch_of(std::shared_ptr<const StreamSource> source, std::int64_t shards = 16,
                            Split split = Split::by_sample) {
  return {.source = is_root() ? std::move(source) : nullptr, .shards = shards, .rank_split = split};
}

// What ranks are given they note by themselves, and put together at the end: each look at one another takes
// long where ranks outnumber cores.

/// **Collective.** The rows of all ranks, sorted.
template <typename Row>
std::vector<Row> of_all_ranks(const std::vector<Row>& mine) {
  Numbers numbers;
  for (const Row& row : mine) numbers.insert(numbers.end(), row.begin(), row.end());
  numbers = all_of_ranks(everyone(), numbers);
  std::vector<Row> all(numbers.size() / std::tuple_size_v<Row>);
  auto from = numbers.begin();
  for (Row& row : all) {
    std::copy_n(from, row.size(), row.begin());
    from += std::ssize(row);
  }
  std::ranges::sort(all);
  return all;
}

/// Items of a dispatch: epoch, step, number.
using ItemRows = std::vector<std::array<std::int64_t, 3>>;

/// **Collective.** Takes a step, and notes this rank's part of it. False at the end.
inline bool take_step(StreamLoader& loader, ItemRows& mine) {
  const auto batch = loader.next();
  if (!batch) return false;
  for (const std::int64_t item : items_of(*batch, loader.source().shards())) {
    mine.push_back({batch->start().epoch, batch->start().step, item});
  }
  return true;
}

inline void take_steps(StreamLoader& loader, int steps) {
  ItemRows ignored;
  for (int k = 0; k < steps; ++k) EXPECT_TRUE(take_step(loader, ignored));
}

/// What was delivered of each epoch, in the order of steps, and in that of the source inside of each.
using Delivered = std::map<std::int64_t, Items>;

/// **Collective.**
inline Delivered delivered(const ItemRows& mine) {
  Delivered all;
  for (const auto& [epoch, step, item] : of_all_ranks(mine)) all[epoch].push_back(item);
  return all;
}

/// Items `first` and later of the first of `epochs` epochs, and all of the others.
inline Delivered whole(std::int64_t length, std::int64_t epochs, std::int64_t first = 0) {
  Delivered all;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
    all[epoch] = numbers_from(epoch == 0 ? first : 0, length);
  return all;
}

}  // namespace rota::test
