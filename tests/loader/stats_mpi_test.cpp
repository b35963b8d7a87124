// The ranks of a run are compared, and the one that others wait for is named.

#include "loader/ranks.hpp"

namespace rota::test::stats_mpi_test {

LoaderOptions options() {
  return {.global_batch_size = everyone().size(), .shards = 1, .shuffle = Shuffle::none, .workers = 0};
}

/// Of `steps` steps, of which this rank's samples take so long to be read.
std::shared_ptr<ToldSource> that_takes(std::chrono::milliseconds wait, std::int64_t steps) {
  const auto source = counting(steps * everyone().size());
  source->place = fmt::format("place-of-{}-", everyone().rank());
  source->on_read = [wait](SampleId) { std::this_thread::sleep_for(wait); };
  return source;
}

// Of all ranks but one, which differs by `extra`.
void expect_spread(const RankComparison::Spread& spread, double extra) {
  EXPECT_LE(spread.least, spread.median);
  EXPECT_LE(spread.median, spread.most);
  EXPECT_GE(spread.most, extra);
  if (everyone().size() > 1) EXPECT_EQ(spread.rank, everyone().size() - 1);
}

TEST(RankStats, NameTheRankThatReadsSlowly) {
  Loader loader(everyone(), that_takes(is_last() ? 40ms : 1ms, 5), options());
  run_out(loader);
  const RankComparison found = compare_ranks(everyone(), loader.stats());
  expect_spread(found.wait, 40e-3);
  expect_spread(found.read, 40e-3);
  EXPECT_EQ(found.transform.most, 0);
  const int last = everyone().size() - 1;
  if (last == 0) {
    EXPECT_EQ(found.straggler, "");
  } else {
    EXPECT_THAT(found.straggler,
                MatchesRegex(fmt::format("rank {0} waits for reads of place-of-{0}-[0-9]+: [0-9]+ ms a "
                                         "batch, others [0-9.]+ ms",
                                         last)));
  }
}

// What was slow before is not told again.
TEST(RankStats, CompareWhatWasSinceTheLastTime) {
  std::atomic<bool> is_slow = is_last();
  const auto source = that_takes(0ms, 20);
  source->on_read = [&is_slow](SampleId) { std::this_thread::sleep_for(is_slow ? 40ms : 2ms); };
  Loader loader(everyone(), source, options());
  for (int k = 0; k < 5; ++k) ASSERT_TRUE(loader.next());
  const LoaderStats before = loader.stats();
  EXPECT_EQ(compare_ranks(everyone(), before).straggler.empty(), everyone().size() == 1);
  is_slow = false;
  for (int k = 0; k < 15; ++k) ASSERT_TRUE(loader.next());
  const RankComparison found = compare_ranks(everyone(), loader.stats(), before);
  EXPECT_GE(found.wait.least, 2e-3);
  EXPECT_LT(found.wait.most, 40e-3);
  EXPECT_GE(compare_ranks(everyone(), loader.stats()).wait.most, 11e-3) << "since the beginning";
}

}  // namespace rota::test::stats_mpi_test
