#include "order/dealer.hpp"

#include <cmath>

#include "rota/fingerprint.hpp"
#include "test.hpp"

namespace rota::test::dealer_test {

using internal::Dealer;
using internal::DealRule;

Numbers parts_of(const Dealer& dealer) { return {dealer.parts().begin(), dealer.parts().end()}; }

/// What each part costs.
Numbers loads(const Dealer& dealer, const Numbers& costs, std::int64_t parts, bool is_padded = false) {
  Numbers sums(static_cast<std::size_t>(parts));
  Numbers largest = sums;
  Numbers counts = sums;
  for (std::size_t slot = 0; slot < costs.size(); ++slot) {
    const auto part = static_cast<std::size_t>(dealer.parts()[slot]);
    sums[part] += costs[slot];
    largest[part] = std::max(largest[part], costs[slot]);
    ++counts[part];
  }
  for (std::size_t p = 0; is_padded && p < sums.size(); ++p) sums[p] = largest[p] * counts[p];
  return sums;
}

Numbers counts(const Dealer& dealer, std::int64_t parts) {
  return loads(dealer, Numbers(dealer.parts().size(), 1), parts);
}

Numbers random_costs(std::mt19937_64& random, std::int64_t most_slots, std::int64_t most) {
  Numbers costs(static_cast<std::size_t>(draw(random, 0, most_slots)));
  for (auto& cost : costs) cost = draw(random, 0, draw(random, 0, most));
  return costs;
}

/// Lengths of texts: log-normal with median 665, cut at 8,192. Without the library's distributions, which
/// differ between machines.
Numbers text_costs(std::mt19937_64& random, std::int64_t slots, std::int64_t linear) {
  Numbers costs;
  while (std::ssize(costs) < slots) {
    double normal = -6;
    for (int i = 0; i < 12; ++i) normal += static_cast<double>(random() >> 11U) * 0x1p-53;
    const auto length = static_cast<std::int64_t>(std::clamp(665 * std::exp(normal), 1.0, 8192.0));
    costs.push_back(length * length + linear * length);
  }
  return costs;
}

/// The greatest load over what it cannot be less than, of `batches`, on average.
double worst(std::int64_t ranks, std::int64_t slots, std::int64_t linear, bool are_counts_equal,
             int batches) {
  std::mt19937_64 random(7);
  Dealer dealer;
  double sum = 0;
  for (int i = 0; i < batches; ++i) {
    const Numbers costs = text_costs(random, ranks * slots, linear);
    dealer.deal(costs, 1, {.ranks = ranks, .are_counts_equal = are_counts_equal});
    const double mean = static_cast<double>(std::accumulate(costs.begin(), costs.end(), std::int64_t{0})) /
                        static_cast<double>(ranks);
    sum += static_cast<double>(std::ranges::max(loads(dealer, costs, ranks))) /
           std::max(mean, static_cast<double>(std::ranges::max(costs)));
  }
  return sum / batches;
}

TEST(Dealer, GivesTextsToRanksInBalance) {
  EXPECT_LT(worst(8, 32, 8192, true, 1000), 1.003);
  EXPECT_LT(worst(64, 16, 8192, true, 200), 1.005);
  EXPECT_LT(worst(64, 16, 8192, false, 200), 1.003);
  EXPECT_LT(worst(64, 16, 0, true, 200), 1.01) << "most is the largest, with 15 others";
  EXPECT_LT(worst(64, 16, 0, false, 200), 1.0001) << "most is the largest alone";
}

TEST(Dealer, DealsTheSameForEver) {
  Dealer dealer;
  dealer.deal(Numbers{7, 1, 5, 5, 3, 9, 2, 8}, 1, {.ranks = 3});
  EXPECT_EQ(parts_of(dealer), (Numbers{1, 1, 1, 2, 0, 0, 0, 2}));
  dealer.deal(Numbers{7, 1, 5, 5, 3, 9, 2, 8}, 1, {.ranks = 2, .micro_batches = 2});
  EXPECT_EQ(parts_of(dealer), (Numbers{1, 0, 3, 3, 1, 0, 2, 2}));
  dealer.deal(Numbers{7, 1, 5, 5, 3, 9, 2, 8}, 1, {.ranks = 2, .limit = 10, .is_padded = true});
  EXPECT_EQ(parts_of(dealer), (Numbers{4, 3, 5, 2, 3, 0, 3, 1}));
  std::mt19937_64 random(1);
  const Numbers costs = text_costs(random, 1024, 8192);
  dealer.deal(costs, 1, {.ranks = 64});
  EXPECT_EQ(to_string(FingerprintBuilder().add(parts_of(dealer)).finish()),
            "92e3f13eeea5667b3bd73c098693530c");
}

TEST(Dealer, GivesAsManySlotsToEachPartWithinOne) {
  for_seeds(300, [](std::uint64_t, std::mt19937_64& random) {
    const Numbers costs = random_costs(random, 60, 1000);
    const DealRule rule{.ranks = draw(random, 1, 9),
                        .micro_batches = draw(random, 1, 4),
                        .is_padded = draw(random, 0, 1) == 1};
    Dealer dealer;
    dealer.deal(costs, 1, rule);
    EXPECT_EQ(dealer.micro_batches(), rule.micro_batches);
    ASSERT_EQ(dealer.parts().size(), costs.size());
    const Numbers all = counts(dealer, rule.ranks * rule.micro_batches);
    EXPECT_LE(std::ranges::max(all) - std::ranges::min(all), 1);
    Numbers by_rank(static_cast<std::size_t>(rule.ranks));
    for (const std::int32_t part : dealer.parts())
      ++by_rank[static_cast<std::size_t>(part / rule.micro_batches)];
    EXPECT_LE(std::ranges::max(by_rank) - std::ranges::min(by_rank), 1);
  });
}

/// The least that the greatest load can be: all ways are tried.
std::int64_t best(const Numbers& costs, std::int64_t parts, bool is_padded) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Numbers part_of(costs.size());
  for (;;) {
    Numbers sums(static_cast<std::size_t>(parts));
    Numbers largest = sums;
    Numbers counts = sums;
    for (std::size_t slot = 0; slot < costs.size(); ++slot) {
      const auto p = static_cast<std::size_t>(part_of[slot]);
      sums[p] += costs[slot];
      largest[p] = std::max(largest[p], costs[slot]);
      ++counts[p];
    }
    for (std::size_t p = 0; is_padded && p < sums.size(); ++p) sums[p] = largest[p] * counts[p];
    least = std::min(least, std::ranges::max(sums));
    std::size_t slot = 0;
    while (slot < part_of.size() && ++part_of[slot] == parts) part_of[slot++] = 0;
    if (slot == part_of.size()) return least;
  }
}

TEST(Dealer, IsCloseToTheBestOfAllWays) {
  for_seeds(60, [](std::uint64_t, std::mt19937_64& random) {
    const Numbers costs = random_costs(random, 8, 100);
    const std::int64_t parts = draw(random, 1, 3);
    Dealer dealer;
    dealer.deal(costs, 1, {.ranks = parts, .are_counts_equal = false});
    EXPECT_LE(3 * std::ranges::max(loads(dealer, costs, parts)), 4 * best(costs, parts, false));
    dealer.deal(costs, 1, {.ranks = parts, .are_counts_equal = false, .is_padded = true});
    EXPECT_EQ(std::ranges::max(loads(dealer, costs, parts, true)), best(costs, parts, true));
  });
}

TEST(Dealer, TakesAsManyMicroBatchesAsALimitAsksFor) {
  for_seeds(200, [](std::uint64_t, std::mt19937_64& random) {
    const Numbers costs = random_costs(random, 60, 1000);
    const DealRule rule{
        .ranks = draw(random, 1, 5), .limit = draw(random, 1, 3000), .is_padded = draw(random, 0, 1) == 1};
    Dealer dealer;
    dealer.deal(costs, 1, rule);
    const std::int64_t parts = rule.ranks * dealer.micro_batches();
    const Numbers all = loads(dealer, costs, parts, rule.is_padded);
    const Numbers slots = counts(dealer, parts);
    for (std::size_t p = 0; p < all.size(); ++p) EXPECT_TRUE(all[p] <= rule.limit || slots[p] == 1);
    if (dealer.micro_batches() == 1) return;
    const std::int64_t fewer = rule.ranks * (dealer.micro_batches() - 1);
    Dealer other;
    other.deal(costs, 1, {.ranks = fewer, .are_counts_equal = false, .is_padded = rule.is_padded});
    const std::int64_t total = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
    const auto is_dear = [&](std::int64_t cost) { return cost > rule.limit; };
    const auto most = std::ranges::max(loads(other, costs, fewer, rule.is_padded));
    EXPECT_TRUE(most > rule.limit || total > fewer * rule.limit ||
                std::ranges::count_if(costs, is_dear) > fewer)
        << "as many as it takes, and no more";
  });
}

TEST(Dealer, TakesNotLongWhereOneSlotIsDearerThanAllOthersOrHardlyTwoFitTogether) {
  Numbers costs(65'536, 1000);
  costs[7] = std::int64_t{1} << 40;
  Dealer dealer;
  const auto begun = std::chrono::steady_clock::now();
  dealer.deal(costs, 1, {.ranks = 2});
  costs[7] = 1000;
  for (const std::int64_t limit : {1001, 1999, 2001, 3500, 9000}) {
    dealer.deal(costs, 1, {.ranks = 8, .limit = limit});
    EXPECT_EQ(dealer.micro_batches(), (65'536 / 8 + limit / 1000 - 1) / (limit / 1000));
  }
  std::mt19937_64 random(1);
  for (auto& cost : costs) cost = draw(random, 200, 450);
  dealer.deal(costs, 1, {.ranks = 1, .limit = 1000});
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s) << "some 0.1 s";
}

// Of the dearest of each micro-batch, as ranks wait for each other there, over the mean of ranks.
double waited(std::int64_t slots, bool are_counts_equal) {
  std::mt19937_64 random(3);
  Dealer dealer;
  double sum = 0;
  for (int i = 0; i < 50; ++i) {
    const Numbers costs = text_costs(random, 8 * slots, 8192);
    dealer.deal(costs, 1, {.ranks = 8, .micro_batches = 4, .are_counts_equal = are_counts_equal});
    const Numbers all = loads(dealer, costs, 32);
    std::int64_t most = 0;
    for (std::size_t m = 0; m < 4; ++m) {
      std::int64_t dearest = 0;
      for (std::size_t r = 0; r < 8; ++r) dearest = std::max(dearest, all[r * 4 + m]);
      most += dearest;
    }
    sum += static_cast<double>(8 * most) /
           static_cast<double>(std::accumulate(costs.begin(), costs.end(), std::int64_t{0}));
  }
  return sum / 50;
}

TEST(Dealer, LetsThoseCostAlikeThatAreTrainedAtATime) {
  EXPECT_LT(waited(128, true), 1.001);
  EXPECT_LT(waited(32, false), 1.002) << "where single texts cost more than a part";
  EXPECT_LT(waited(32, true), 1.03) << "and eight are in each part";
}

TEST(Dealer, BalancesSeveralColumnsByTheWorst) {
  std::mt19937_64 random(5);
  Dealer dealer;
  Numbers both;
  const Numbers texts = text_costs(random, 512, 8192);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    both.push_back(texts[i]);
    both.push_back(draw(random, 0, 9) == 0 ? draw(random, 1, 20) : 0);  // images, of few samples
  }
  dealer.deal(both, 2, {.ranks = 8});
  for (std::size_t column = 0; column < 2; ++column) {
    Numbers costs;
    for (std::size_t i = column; i < both.size(); i += 2) costs.push_back(both[i]);
    const double mean = static_cast<double>(std::accumulate(costs.begin(), costs.end(), std::int64_t{0})) / 8;
    EXPECT_LT(static_cast<double>(std::ranges::max(loads(dealer, costs, 8))), 1.05 * mean) << column;
  }
}

TEST(Dealer, TakesNothingOneAndWhatCostsNothing) {
  Dealer dealer;
  for (const bool is_padded : {false, true}) {
    for (const std::int64_t limit : {0, 1}) {
      dealer.deal({}, 1, {.ranks = 3, .limit = limit, .is_padded = is_padded});
      EXPECT_EQ(dealer.micro_batches(), 1);
      dealer.deal(Numbers{std::int64_t{1} << 62}, 1, {.ranks = 3, .limit = limit, .is_padded = is_padded});
      EXPECT_EQ(dealer.micro_batches(), 1);
      dealer.deal(Numbers(10), 1, {.ranks = 3, .limit = limit, .is_padded = is_padded});
      EXPECT_EQ(dealer.micro_batches(), 1);
    }
  }
}

}  // namespace rota::test::dealer_test
