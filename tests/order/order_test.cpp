#include "order/order.hpp"
#include "order/naive_epoch.hpp"

namespace rota::test::order_test {

constexpr Shuffle kShuffles[] = {Shuffle::none, Shuffle::within, Shuffle::global, Shuffle::block};

std::vector<ShardPlan> plans() {
  std::mt19937_64 random(11);
  std::vector<ShardPlan> plans;
  for (const std::int64_t n : {0, 1, 2, 7, 100, 1000, 1021}) {
    for (const std::int64_t shards : {1, 2, 7, 64, 2000})
      plans.push_back(ShardPlan::equal(n, shards, shards / 3));
  }
  for (const std::int64_t shards : {1, 5, 40}) {
    Numbers lengths(static_cast<std::size_t>(shards));
    for (auto& length : lengths) length = draw(random, 0, 50);
    plans.push_back(ShardPlan::ragged(lengths, shards / 4));
  }
  return plans;
}

/// The ids of all seats of an epoch, shard by shard.
Numbers all_ids(const EpochOrder& order, const ShardPlan& plan) {
  Numbers ids;
  for (std::int64_t s = 0; s < plan.shards(); ++s) {
    const auto shard = ids_of(order, {.shard = {s}, .count = plan.length(s)});
    ids.insert(ids.end(), shard.begin(), shard.end());
  }
  return ids;
}

TEST(Order, EveryEpochIsABijectionOfSeatsAndSamplesWithItsInverse) {
  for (const ShardPlan& plan : plans()) {
    for (const Shuffle shuffle : kShuffles) {
      for (const std::int64_t epoch : {0, 3}) {
        SCOPED_TRACE(to_string(shuffle));
        const EpochOrder order =
            Order(plan, shuffle, 42, {.samples = 10 + 2 * epoch, .blocks = 4}).epoch(epoch);
        std::set<std::int64_t> seen;
        for (std::int64_t s = 0; s < plan.shards(); ++s) {
          for (std::int64_t p = 0; p < plan.length(s); ++p) {
            const SampleId id = sample_at(order, s, p);
            ASSERT_TRUE(id.value >= 0 && id.value < plan.samples() && seen.insert(id.value).second);
            ASSERT_EQ(order.locate(id), (ShardPosition{.shard = {s}, .position = p}));
          }
        }
      }
    }
  }
}

TEST(Order, ShardsKeepTheirSamplesWithinAndGetNewOnesGlobally) {
  const ShardPlan plan = ShardPlan::equal(1000, 8);
  const auto shard_0 = [&](Shuffle shuffle, std::int64_t epoch) {
    const auto ids = all_ids(Order(plan, shuffle, 1).epoch(epoch), plan);
    return std::set<std::int64_t>(ids.begin(), ids.begin() + plan.length(0));
  };
  EXPECT_EQ(shard_0(Shuffle::within, 0), shard_0(Shuffle::within, 1));
  EXPECT_NE(shard_0(Shuffle::global, 0), shard_0(Shuffle::global, 1));
}

TEST(Order, EpochsAndSeedsDiffer) {
  const ShardPlan plan = ShardPlan::equal(1000, 8);
  for (const Shuffle shuffle : {Shuffle::within, Shuffle::global, Shuffle::block}) {
    const auto ids = [&](std::uint64_t seed, std::int64_t epoch) {
      return all_ids(Order(plan, shuffle, seed, {.samples = 16, .blocks = 4}).epoch(epoch), plan);
    };
    EXPECT_NE(ids(7, 0), ids(7, 1)) << to_string(shuffle);
    EXPECT_NE(ids(7, 1), ids(8, 0)) << to_string(shuffle);
  }
}

TEST(Order, ABlockWindowTouchesNoMoreBlocksThanItHas) {
  constexpr std::int64_t kSamples = 10'000;
  const BlockShape shape{.samples = 64, .blocks = 8};
  const ShardPlan plan = ShardPlan::equal(kSamples, 1);
  const auto ids = all_ids(Order(plan, Shuffle::block, 5, shape).epoch(0), plan);
  std::map<std::int64_t, std::set<std::int64_t>> windows_of_block;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // The short block makes windows after it start up to a block early.
    windows_of_block[ids[i] / shape.samples].insert(static_cast<std::int64_t>(i) /
                                                    (shape.samples * shape.blocks));
  }
  for (const auto& [block, windows] : windows_of_block) EXPECT_LE(windows.size(), 2U) << block;
  EXPECT_FALSE(std::is_sorted(ids.begin(), ids.end()));
}

BlockBegins begins_of(const Numbers& lengths) {
  Numbers begins{0};
  for (const std::int64_t length : lengths) begins.push_back(begins.back() + length);
  return std::make_shared<const Numbers>(std::move(begins));
}

TEST(Order, BlocksThatAreUnitsMoveAsWholesAndAreFoundAgain) {
  std::mt19937_64 random(5);
  for (const std::int64_t units : {1, 2, 40}) {
    Numbers lengths(static_cast<std::size_t>(units));
    for (auto& length : lengths) length = draw(random, 1, 30);
    const BlockBegins begins = begins_of(lengths);
    const ShardPlan plan = ShardPlan::equal(begins->back(), 3);
    const EpochOrder order = Order(plan, Shuffle::block, 9, {.samples = 0, .blocks = 4}, begins).epoch(2);
    std::set<std::int64_t> seen;
    std::map<std::int64_t, std::set<std::int64_t>> units_of_window;
    for (std::int64_t s = 0; s < plan.shards(); ++s) {
      for (std::int64_t p = 0; p < plan.length(s); ++p) {
        const SampleId id = sample_at(order, s, p);
        ASSERT_TRUE(id.value >= 0 && id.value < plan.samples() && seen.insert(id.value).second);
        ASSERT_EQ(order.locate(id), (ShardPosition{.shard = {s}, .position = p}));
        units_of_window[order.window_at({s}, p)].insert(std::ranges::upper_bound(*begins, id.value) -
                                                        begins->begin());
      }
    }
    for (const auto& [window, own] : units_of_window) {
      EXPECT_LE(own.size(), 4U);
      EXPECT_EQ(order.blocks_of(window).size(), own.size());
    }
  }
}

TEST(Order, UnitsOfOneSizeAreOrderedAsBlocksOfThatSize) {
  const ShardPlan plan = ShardPlan::equal(100, 2);
  const BlockShape shape{.samples = 16, .blocks = 3};
  const BlockBegins begins = begins_of({16, 16, 16, 16, 16, 16, 4});
  EXPECT_EQ(all_ids(Order(plan, Shuffle::block, 1, {.samples = 0, .blocks = 3}, begins).epoch(1), plan),
            all_ids(Order(plan, Shuffle::block, 1, shape).epoch(1), plan));
}

TEST(ShardPlan, EqualPartsDifferByAtMostOneAndFollowTheFormula) {
  for (const std::int64_t n : {0, 1, 5, 100, 1021}) {
    for (const std::int64_t shards : {1, 2, 7, 1000}) {
      const ShardPlan plan = ShardPlan::equal(n, shards);
      for (std::int64_t s = 0; s <= shards; ++s) ASSERT_EQ(plan.begin(s), s * n / shards);
      for (std::int64_t g = 0; g < n; ++g) {
        const std::int64_t s = plan.shard_at(g).value;
        ASSERT_LE(plan.begin(s), g);
        ASSERT_GT(plan.begin(s + 1), g);
      }
    }
  }
}

TEST(ShardPlan, HoldsTheLargestDatasetWithoutOverflow) {
  const std::int64_t n = std::int64_t{1} << 62;
  const ShardPlan plan = ShardPlan::equal(n, kMaxShards - 1);
  EXPECT_EQ(plan.begin(plan.shards()), n);
  EXPECT_EQ(plan.shard_at(n - 1).value, plan.shards() - 1);
}

}  // namespace rota::test::order_test
