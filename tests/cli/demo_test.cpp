#include "cli/programs.hpp"

namespace rota::test::demo_test {

// ---- the whole demo ----

class DemoCampaign : public DemoTest {};

const std::string kFourWorlds = " --shards 12 --batch 16 --worlds 3x1:5,1x2@7:9,5x0@32:2,2x3";
const std::string kTwoWorlds = " --shards 12 --batch 16 --worlds 3x2:5,2x3@7";

TEST_F(DemoTest, ProvesCarriedTailsInFourWorlds) {
  expect_proven(101, "--tail carry --shuffle within" + kFourWorlds, "PROVEN: 3 epochs x 101 samples");
}

TEST_F(DemoTest, ProvesRanksAndWorkersThatReadWholeShardsOrTakeTurns) {
  for (const std::string split : {"--rank-split by_shard --worker-split by_shard",
                                  "--rank-split interleaved --worker-split interleaved"}) {
    expect_proven(101, split + kTwoWorlds, "PROVEN: 3 epochs x 101 samples");
  }
}

TEST_F(DemoTest, ProvesWindowsOverPackedSequences) {
  expect_proven(101, "--pack 5 --window 3:2" + kTwoWorlds, "PROVEN: 3 epochs");
}

TEST_F(DemoCampaign, ProvesEveryTailShuffleAndSplitInFourWorlds) {
  for (const std::string how :
       {"--tail partial --shuffle global", "--tail drop --shuffle block", "--tail pad --shuffle none",
        "--rank-split by_shard --worker-split by_shard",
        "--rank-split interleaved --worker-split interleaved", "--pack 5", "--pack 5 --window 3:2"}) {
    expect_proven(101, how + kFourWorlds, "PROVEN: 3 epochs");
  }
}

TEST_F(DemoTest, ProvesARunOfMoreRanksThanSamples) {
  expect_proven(3, "--shards 5 --batch 2 --worlds 4x2:2,1x0:1,3x1", "PROVEN: 3 epochs x 3 samples");
}

TEST_F(DemoTest, ProvesPaddingWiderThanTheDataset) {
  expect_proven(3, "--shards 2 --batch 10 --tail pad --worlds 2x1:1,3x0", "21 slots of marked padding");
}

TEST_F(DemoTest, TellsWhereARunWasToStopEarly) {
  expect_proven(50, "--batch 8 --worlds 2x1:3,1x0:2", "40 of 50 samples of epoch 0");
}

TEST_F(DemoTest, ProvesAPlanThroughAKillAndADatasetThatComes) {
  const std::string worlds = " --batch 4 --worlds 3x1:8,2x1:6!3,5x2+3:30,1x0";
  expect_proven(101, "--plan" + worlds, "PROVEN: ");
  expect_proven(101, "--plan --tail pad --rank-split by_shard" + worlds, "of 3 datasets, ");
  EXPECT_THAT(demo("--data data --worlds 2x1+3"), ends(2, HasSubstr("with --plan")));
  EXPECT_THAT(demo("--data data --plan --worlds 2x1+4"), ends(2, HasSubstr("at most 3 datasets")));
}

TEST_F(DemoTest, RefusesAWindowThatIsNone) {
  for (const std::string window : {"0", "3:0", "3:", "3:2x", "x"}) {
    EXPECT_THAT(demo("--window " + window), ends(2, HasSubstr("error: "))) << window;
  }
}

TEST_F(DemoTest, RefusesABatchThatNoLoaderTakes) {
  make_data(3);
  EXPECT_THAT(demo("--data data --worlds 2x1 --batch 9223372036854775807"),
              ends(2, HasSubstr("global_batch_size is 9223372036854775807")));
}

TEST_F(DemoTest, KeepsItsFilesWhereItWasToldToAndDoesNotMixThem) {
  make_data(20);
  const std::string arguments = "--data data --batch 8 --worlds 2x1 --work work";
  EXPECT_EQ(demo(arguments).code, 0);
  EXPECT_TRUE(fs::exists(path("work/trace/phase-000000-rank-00001.jsonl")));
  EXPECT_THAT(demo(arguments),
              ends(Ne(0), AllOf(HasSubstr("error: "), HasSubstr("it holds a demo already"))));
}

TEST_F(DemoTest, TellsWhichPhaseFailedAndHow) {
  make_data(20);
  EXPECT_THAT(demo("--data data --format hdf5 --worlds 2x1"), ends(Ne(0), HasSubstr("error: ")));
  EXPECT_THAT(demo("--data data --epochs 1000000 --timeout 1 --worlds 2x1"),
              ends(Ne(0), HasSubstr("phase 0 (2 ranks x 1 workers): not done after 1 s")));
}

// ---- phases ----

class DemoPhases : public DemoTest {
 protected:
  void expect_audited(const std::string& arguments) const {
    EXPECT_THAT(rota("audit trace " + arguments), ends(0, Not(HasSubstr("FAILED"))));
  }
  void signal_rank(int rank, int signal) const {
    ASSERT_EQ(::kill(std::stoi(read_file(dir_ / fmt::format("pid.{}", rank))), signal), 0);
  }
};

TEST_F(DemoPhases, StartWhereThereIsNoCheckpointAndEndAtOnceWhereNothingIsLeftToDo) {
  make_data(20);
  EXPECT_THAT(phase(2, "--batch 8 --epochs 2 --resume"), ends(0, HasSubstr("phase 0: 6 steps")));
  EXPECT_THAT(phase(3, "--batch 8 --epochs 2 --resume"), ends(0, HasSubstr("phase 1: 0 steps")));
  expect_audited("--samples 20 --batch 8 --epochs 2");
}

TEST_F(DemoPhases, LoseNothingWhenARankIsKilled) {
  make_data(400);
  auto running = start_phase(3, "--batch 4 --epochs 20 --save-every 10");
  wait_for_lines(1, 60);
  signal_rank(1, SIGKILL);
  EXPECT_NE(running.get().code, 0);
  EXPECT_EQ(phase(2, "--batch 40 --epochs 20 --resume --stop-after 30").code, 0);
  EXPECT_EQ(phase(4, "--batch 40 --epochs 20 --resume").code, 0);
  expect_audited("--samples 400 --batch 4 --epochs 20");
}

TEST_F(DemoPhases, StopInOrderWhenARankIsAskedTo) {
  make_data(400);
  auto running = start_phase(3, "--batch 4 --epochs 1000 --shuffle within");
  wait_for_lines(0, 30);
  signal_rank(2, SIGTERM);
  EXPECT_THAT(running.get(), ends(0, HasSubstr("asked to stop")));
  EXPECT_EQ(phase(2, "--batch 4 --epochs 1000 --shuffle within --resume --stop-after 20").code, 0);
  expect_audited("--samples 400 --batch 4");
}

}  // namespace rota::test::demo_test
