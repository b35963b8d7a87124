#include "stream/numbered_stream.hpp"
#include "stream/shard_feed.hpp"

namespace rota::test::ownership_test {

TEST(Ownership, GoesByNumberWhereNothingIsKnown) {
  EXPECT_THAT(share_out(Numbers(7, kUnknownWeight), 3), ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_THAT(share_out(Numbers(2, 0), 3), ElementsAre(0, 1));
}

TEST(Ownership, GivesARankWithALongShardFewOthers) {
  EXPECT_THAT(share_out(Numbers{1, 100, 1, 1, 1}, 2), ElementsAre(1, 0, 1, 1, 1));
}

TEST(Ownership, TakesWhatIsUnknownForTheMean) {
  EXPECT_THAT(share_out(Numbers{30, 10, kUnknownWeight, 5}, 2), ElementsAre(0, 1, 1, 1));
}

// The bound of Graham, "Bounds on multiprocessing timing anomalies", 1969.
TEST(Ownership, LoadsNoRankMuchMoreThanItsShare) {
  std::mt19937_64 random(7);
  for (const int ranks : {8, 7, 13, 1, 32, 5}) {
    for (int round = 0; round < 50; ++round) {
      Numbers weights(random() % 200);
      for (auto& weight : weights) weight = static_cast<std::int64_t>(random() % 1000);
      Numbers loads(static_cast<std::size_t>(ranks));
      const auto owners = share_out(weights, ranks);
      for (std::size_t s = 0; s < weights.size(); ++s)
        loads[static_cast<std::size_t>(owners[s])] += weights[s];
      const std::int64_t sum = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
      const std::int64_t longest = weights.empty() ? 0 : *std::ranges::max_element(weights);
      EXPECT_EQ(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}), sum);
      EXPECT_LE(*std::ranges::max_element(loads), sum / ranks + longest);
    }
  }
}

}  // namespace rota::test::ownership_test
