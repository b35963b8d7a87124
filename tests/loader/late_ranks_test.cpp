// A rank that does not come to a step is named on all others; nobody waits for ever, nor does one that comes
// after all.

#include "loader/ranks.hpp"

namespace rota::test::late_ranks_test {

LoaderOptions options(std::chrono::milliseconds deadline = kDeadline) {
  return {.global_batch_size = 8, .shuffle = Shuffle::none, .deadline = deadline, .bad_samples = kSkip};
}

void expect_timeout(Loader& loader, int missing) {
  EXPECT_ERROR(run_out(loader), timeout,
               {"count bad samples: ", fmt::format("rank {} did not arrive", missing), "end the job"});
}

// Of all ranks. Each begins when the others do; where one is late all the same, all throw, and none waits for
// those that have left.
void step_together(Loader& loader) {
  everyone().together("take a step", [&] { EXPECT_TRUE(loader.next()); });
}

TEST(LateRanks, AreNamedByNextOfAllOthersAndToldWhenTheyComeAfterAll) {
  if (!are_three_threads()) GTEST_SKIP() << "takes seconds: on three threads";
  for (const int missing : {0, everyone().size() - 1}) {
    const auto source = faulty(4000, true);
    source->corrupt = {3, 900};
    Loader loader(everyone(), source, options());
    for (int k = 0; k < 3; ++k) step_together(loader);
    wait_without(missing, [&] {
      for (int attempt = 0; attempt < 2; ++attempt) expect_timeout(loader, missing);
    });
    if (is_root() && missing == 0) expect_timeout(loader, missing);
  }
}

// What was delivered was delivered: what is kept of such a loader is right.
TEST(LateRank, LeavesThePositionBehindTheLastBatch) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  Loader loader(everyone(), faulty(4000, false), options());
  std::int64_t steps = 0;
  for (; steps < 3; ++steps) step_together(loader);
  wait_without(everyone().size() - 1, [&] {
    const auto run_on = [&] {
      while (loader.next()) ++steps;
    };
    EXPECT_ERROR(run_on(), timeout, {"did not arrive"});
  });
  EXPECT_EQ(loader.position(), (Position{.epoch = 0, .consumed = 8 * steps, .step = steps}));
}

TEST(LoaderDeadline, OfBadSamplesMustNotBeBelowZeroAndIsTenMinutes) {
  EXPECT_EQ(LoaderOptions{}.deadline, 10min);
  EXPECT_NO_THROW(options(0ms).validate());
  EXPECT_ERROR(options(-1ms).validate(), invalid_argument, {"deadline is -0.001"});
}

}  // namespace rota::test::late_ranks_test
