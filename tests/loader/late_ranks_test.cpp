// A rank that does not come to a step is named on all others; nobody waits for ever, nor does one that comes
// after all.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::late_ranks_test {

const mpi::Communicator& everybody() { return mpi_session().comm(); }

LoaderOptions options(std::chrono::milliseconds deadline) {
  return {.global_batch_size = 8,
          .shards = 1,
          .shuffle = Shuffle::none,
          .bad_samples = {.policy = OnBadSample::skip, .deadline = deadline}};
}

void expect_timeout(Loader& loader, int missing) {
  try {
    while (loader.next()) continue;
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("count bad samples: "),
                                    HasSubstr("rank " + std::to_string(missing) + " did not arrive"),
                                    HasSubstr("end the job")));
  }
}

// Of all ranks. Each begins when the others do; where one is late all the same, all throw, and none waits for
// those that have left.
void step_together(Loader& loader) {
  mpi::together(everybody(), "take a step", [&] { EXPECT_TRUE(loader.next()); });
}

class LateRanks : public ::testing::TestWithParam<bool> {};

TEST_P(LateRanks, AreNamedByNextOfAllOthersAndToldWhenTheyComeAfterAll) {
  const bool comes_late = GetParam();
  if (everybody().size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const int missing : {0, everybody().size() - 1}) {
    const auto source = faulty(4000, true);
    source->corrupt = {3, 900};
    Loader loader(everybody(), source, options(std::chrono::seconds(1)));
    for (int k = 0; k < 3; ++k) step_together(loader);
    if (everybody().rank() != missing) {
      for (int attempt = 0; attempt < 2; ++attempt) expect_timeout(loader, missing);
    }
    mpi::agree(everybody(), "wait for the others", nullptr);
    if (everybody().rank() == missing && comes_late) expect_timeout(loader, missing);
  }
}

// What was delivered was delivered: what is kept of such a loader is right.
TEST_P(LateRanks, LeaveThePositionBehindTheLastBatch) {
  if (everybody().size() == 1) GTEST_SKIP() << "one rank has no others";
  const int missing = everybody().size() - 1;
  Loader loader(everybody(), faulty(4000, false), options(std::chrono::seconds(1)));
  std::int64_t steps = 0;
  try {
    while ((everybody().rank() != missing || steps < 3) && loader.next()) ++steps;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
  }
  EXPECT_EQ(loader.position(), (Position{.epoch = 0, .consumed = 8 * steps, .step = steps}));
  mpi::agree(everybody(), "wait for the others", nullptr);
}

INSTANTIATE_TEST_SUITE_P(ComesLate, LateRanks, ::testing::Bool());

TEST(Deadline, OfBadSamplesMustNotBeBelowZeroAndIsTenMinutes) {
  EXPECT_EQ(BadSamples{}.deadline, std::chrono::minutes(10));
  EXPECT_NO_THROW(options(std::chrono::milliseconds(0)).validate());
  try {
    options(std::chrono::milliseconds(-1)).validate();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("bad_samples.deadline is -1"));
  }
}

}  // namespace rota::test::late_ranks_test
