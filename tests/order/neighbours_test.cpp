// Do samples that are neighbours on disk meet in a global batch as often as by chance?

#include "order/order.hpp"
#include "order/schedule.hpp"
#include "test.hpp"

namespace rota::test::neighbours_test {

struct Setting {
  Shuffle shuffle;
  std::int64_t samples;
  std::int64_t shards;
  std::int64_t rounds;  // of a batch: B = rounds x shards
};
constexpr std::int64_t kNear = 8;  // and no further apart are neighbours

/// The samples of which a shuffle puts any into any place: with which of them one meets is chance.
/// Which those are, for the sample `id`: [first, last).
std::pair<std::int64_t, std::int64_t> shuffled_with(const ShardPlan& plan, Shuffle shuffle, std::int64_t id) {
  if (shuffle == Shuffle::global) return {0, plan.samples()};
  if (shuffle == Shuffle::block) return {id / 256 * 256, std::min(plan.samples(), id / 256 * 256 + 256)};
  const std::int64_t shard = plan.shard_at(id).value;
  return {plan.begin(shard), plan.begin(shard + 1)};
}

/// How many of `places` places of one permutation are in a batch, for each of its batches: by chance a pair
/// of its samples meets with probability sum c (c - 1) / (places (places - 1)).
double chance(std::int64_t places, std::int64_t batch) {
  double pairs = 0;
  for (std::int64_t at = 0; at < places; at += batch) {
    const auto c = static_cast<double>(std::min(batch, places - at));
    pairs += c * (c - 1);
  }
  return pairs / (static_cast<double>(places) * static_cast<double>(places - 1));
}

double chance(const ShardPlan& plan, const Setting& s, std::int64_t id) {
  if (s.shuffle == Shuffle::global) return chance(s.samples, s.rounds * s.shards);
  if (s.shuffle == Shuffle::within) return chance(plan.length(plan.shard_at(id).value), s.rounds);
  return chance(4096, s.rounds);  // a window, which lies inside one shard and begins with a batch
}

// All shards have had the same number of turns at the end of a batch, so that the batch of a sample follows
// from its position. Enough pairs that 1 % is four standard deviations: pairs are all but independent.
void expect_meetings_by_chance(const Setting& s) {
  const ShardPlan plan = ShardPlan::equal(s.samples, s.shards);
  const Order order(plan, s.shuffle, 99);
  constexpr std::int64_t kRun = 256;
  constexpr double kExpected = 160'000;
  double expected = 0;
  std::int64_t met = 0;
  Numbers batches(kRun);
  for (std::int64_t epoch = 0; expected < kExpected; ++epoch) {
    const EpochOrder in_epoch = order.epoch(epoch);
    for (std::int64_t start = epoch % 64 * kRun; start + kRun <= s.samples && expected < kExpected;
         start += 64 * kRun) {
      const auto [first, last] = shuffled_with(plan, s.shuffle, start);
      const std::int64_t count = std::min(kRun, last - start);
      for (std::int64_t i = 0; i < count; ++i)
        batches[static_cast<std::size_t>(i)] = in_epoch.locate({start + i}).position / s.rounds;
      for (std::int64_t i = 0; i + kNear < count; ++i) {
        const auto at = batches.begin() + i;
        met += std::count(at + 1, at + 1 + kNear, *at);
      }
      expected +=
          static_cast<double>(std::max<std::int64_t>(count - kNear, 0) * kNear) * chance(plan, s, start);
    }
  }
  EXPECT_NEAR(static_cast<double>(met) / expected, 1, 0.01)
      << to_string(s.shuffle) << ", N = " << s.samples << ", L = " << s.shards << ", B = " << s.rounds
      << " L";
}

// Shuffle::none has no chance in it. Of block, neighbours of one block stay in one window by design: the
// question is where in it.
TEST(Neighbours, MeetInABatchAsOftenAsByChance) {
  for (const Setting& setting : {Setting{Shuffle::global, 1 << 20, 256, 16},
                                 {Shuffle::global, 1 << 20, 257, 16},
                                 {Shuffle::global, 1'000'000, 250, 16},
                                 {Shuffle::global, 1 << 22, 256, 32},
                                 {Shuffle::global, 1 << 22, 255, 64},
                                 {Shuffle::global, 1 << 24, 256, 64},
                                 {Shuffle::global, 1 << 24, 257, 512},
                                 {Shuffle::within, 1 << 20, 256, 16},
                                 {Shuffle::within, 1'000'000, 257, 16},
                                 {Shuffle::within, 1 << 22, 255, 64},
                                 {Shuffle::within, 1 << 24, 250, 256},
                                 {Shuffle::block, 1 << 20, 256, 16},
                                 {Shuffle::block, 1 << 24, 256, 16}}) {
    expect_meetings_by_chance(setting);
  }
}

}  // namespace rota::test::neighbours_test
