#include "cli/demo_fixture.hpp"
#include "test.hpp"

namespace rota::test::demo_test {

using rota::test::DemoTest;
using rota::test::Ended;

// ---- the whole demo ----

class WholeDemo : public DemoTest,
                  public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(WholeDemo, ProvesEveryTailAndShuffle) {
  const auto [tail, shuffle] = GetParam();
  const auto data = make_data(101);
  const Ended ended = demo("--data " + data.string() + " --shards 12 --batch 16 --epochs 3 --tail " + tail +
                           " --shuffle " + shuffle + " --worlds 3x1:5,1x2@7:9,5x0@32:2,2x1");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("PROVEN: 3 epochs x 101 samples"));
}

INSTANTIATE_TEST_SUITE_P(TailsAndShuffles, WholeDemo,
                         ::testing::Values(std::tuple("partial", "global"), std::tuple("carry", "within"),
                                           std::tuple("drop", "block"), std::tuple("pad", "none")));

TEST_F(DemoTest, ProvesRanksAndWorkersThatReadWholeShardsOrTakeTurns) {
  const auto data = make_data(101);
  for (const std::string split : {"by_shard", "interleaved"}) {
    std::string splits = " --rank-split ";
    splits.append(split).append(" --worker-split ").append(split);
    const Ended ended = demo("--data " + data.string() + " --shards 12 --batch 16" + splits +
                             " --worlds 3x2:5,1x2@7:9,5x0@32:2,2x3");
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("PROVEN: 3 epochs x 101 samples"));
  }
}

TEST_F(DemoTest, ProvesPackedSequencesAndWindowsOverThem) {
  const auto data = make_data(101);
  for (const std::string how : {"--pack 5", "--pack 5 --window 3:2"}) {
    const Ended ended =
        demo("--data " + data.string() + " --batch 16 " + how + " --worlds 3x1:5,1x2@7:9,5x0@32:2,2x3");
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("PROVEN: 3 epochs"));
  }
}

TEST_F(DemoTest, RefusesAWindowThatIsNone) {
  for (const std::string window : {"0", "3:0", "3:", "3:2x", "x"}) {
    const Ended ended = demo("--window " + window);
    EXPECT_EQ(ended.code, 2) << window;
    EXPECT_THAT(ended.output, HasSubstr("error: ")) << window;
  }
}

TEST_F(DemoTest, RefusesABatchThatNoLoaderTakes) {
  const auto data = make_data(3);
  const Ended ended = demo("--data " + data.string() + " --worlds 2x1 --batch 9223372036854775807");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("global_batch_size is 9223372036854775807"));
}

TEST_F(DemoTest, ProvesARunOfMoreRanksThanSamples) {
  const auto data = make_data(3);
  const Ended ended = demo("--data " + data.string() + " --shards 5 --batch 2 --worlds 4x2:2,1x0:1,3x1");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("PROVEN: 3 epochs x 3 samples"));
}

TEST_F(DemoTest, ProvesPaddingWiderThanTheDataset) {
  const auto data = make_data(3);
  const Ended ended =
      demo("--data " + data.string() + " --shards 2 --batch 10 --tail pad --worlds 2x1:1,3x0");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("21 slots of marked padding"));
}

TEST_F(DemoTest, TellsWhereARunWasToStopEarly) {
  const auto data = make_data(50);
  const Ended ended = demo("--data " + data.string() + " --batch 8 --worlds 2x1:3,1x0:2");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("40 of 50 samples of epoch 0"));
}

TEST_F(DemoTest, KeepsItsFilesWhereItWasToldToAndDoesNotMixThem) {
  const auto data = make_data(20);
  const std::string arguments =
      "--data " + data.string() + " --batch 8 --worlds 2x1 --work " + path("work").string();
  EXPECT_EQ(demo(arguments).code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("work/trace/phase-000000-rank-00001.jsonl")));
  const Ended again = demo(arguments);
  EXPECT_NE(again.code, 0);
  EXPECT_THAT(again.output, AllOf(HasSubstr("error: "), HasSubstr("it holds a demo already")));
}

TEST_F(DemoTest, TellsWhichPhaseFailedAndHow) {
  const auto data = make_data(20);
  const Ended ended = demo("--data " + data.string() + " --format hdf5 --worlds 2x1");
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.output, HasSubstr("error: "));
  const Ended slow = demo("--data " + data.string() + " --epochs 1000000 --timeout 1 --worlds 2x1");
  EXPECT_NE(slow.code, 0);
  EXPECT_THAT(slow.output, HasSubstr("phase 0 (2 ranks x 1 workers): not done after 1 s"));
}

// ---- phases ----

TEST_F(DemoTest, EndsAtOnceWhereThereIsNothingLeftToDo) {
  make_data(20);
  EXPECT_EQ(phase(2, "--batch 8 --epochs 2 --stop-after 100").code, 0);
  const Ended again = phase(3, "--batch 8 --epochs 2 --resume");
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output, HasSubstr("phase 1: 0 steps"));
  EXPECT_EQ(audit("--samples 20 --batch 8 --epochs 2").code, 0);
}

TEST_F(DemoTest, StartsFromTheBeginningWhereThereIsNoCheckpoint) {
  make_data(20);
  const Ended ended = phase(1, "--batch 8 --epochs 1 --resume");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("phase 0: 3 steps"));
}

TEST_F(DemoTest, LosesNothingWhenARankIsKilled) {
  make_data(1000);
  auto running = start_phase(3, "--batch 4 --epochs 2 --save-every 10");
  wait_for_lines(1, 60);
  signal_rank(1, SIGKILL);
  EXPECT_NE(running.get().code, 0);

  EXPECT_EQ(phase(2, "--batch 4 --epochs 2 --resume --stop-after 300").code, 0);
  EXPECT_EQ(phase(4, "--batch 4 --epochs 2 --resume").code, 0);
  const Ended audited = audit("--samples 1000 --batch 4 --epochs 2");
  EXPECT_EQ(audited.code, 0) << audited.output;
}

TEST_F(DemoTest, StopsInOrderWhenARankIsAskedTo) {
  make_data(2000);
  auto running = start_phase(3, "--batch 4 --epochs 5 --shuffle within");
  wait_for_lines(0, 30);
  signal_rank(2, SIGTERM);
  const Ended stopped = running.get();
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("asked to stop"));

  EXPECT_EQ(phase(2, "--batch 4 --epochs 5 --shuffle within --resume --stop-after 20").code, 0);
  const Ended audited = audit("--samples 2000 --batch 4");
  EXPECT_EQ(audited.code, 0) << audited.output;
  EXPECT_THAT(audited.output, Not(HasSubstr("FAILED")));
}

}  // namespace rota::test::demo_test
