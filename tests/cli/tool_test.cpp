// The `rota` tool, as a user calls it.

#include "cli/fake_stream.hpp"
#include "cli/programs.hpp"

namespace rota::test::tool_test {

class Tool : public DemoTest {};

TEST_F(Tool, PassesARightTrace) {
  FakeRun(100, "partial", 2).phase(2, 16, 5).phase(3, 10).write(dir_ / "right");
  expect_says("audit right --samples 100 --batch 16 --complete", 0,
              AllOf(HasSubstr("2 complete epochs of 100 samples"), HasSubstr("passed")));
}

TEST_F(Tool, FailsAWrongTraceAndSaysWhere) {
  FakeRun wrong(100, "partial", 2);
  wrong.phase(2, 16, 5).phase(3, 10).record(0, 1, 1).ids[0] = 100;
  wrong.write(dir_ / "wrong");
  expect_says("audit wrong --samples 100 --batch 16", 1,
              AllOf(HasSubstr("FAILED: 2 problems"), HasSubstr("phase 0, rank 1, epoch 0, sample 16")));
}

TEST_F(Tool, ComparesTwoTraces) {
  FakeRun(100, "partial", 1).phase(2, 16).write(dir_ / "one");
  FakeRun(100, "partial", 1).phase(1, 16, 2).phase(7, 16).write(dir_ / "same");
  FakeRun(100, "partial", 1).phase(2, 20).write(dir_ / "other");
  EXPECT_EQ(rota("audit one --samples 100 --same-as same").code, 0);
  expect_says("audit one --samples 100 --same-as other", 1, HasSubstr("difference: epoch 0, sample 0"));
}

TEST_F(Tool, AuditsStreams) {
  FakeStream run;
  run.write(dir_ / "right");
  run.batches[{0, 1}][0].positions[1] = 2;
  run.write(dir_ / "wrong");
  expect_says("audit right --samples 10 --epochs 2", 0,
              AllOf(HasSubstr("2 complete epochs, 6 global batches, 20 samples"), HasSubstr("passed")));
  expect_says(
      "audit wrong --same-as right", 1,
      AllOf(HasSubstr("missing: phase 0, rank 1, epoch 0, step 0: 1:10:0 is number 2 of its shard, not 1"),
            HasSubstr("difference: epoch 0, shard 1")));
}

TEST_F(Tool, SaysWhatAnAuditTookFromTheTraceItself) {
  FakeRun(100, "partial", 1).phase(2, 16).write(dir_ / "run");
  expect_says("audit run", 0, HasSubstr("how many samples there are is what the trace says"));
  expect_says("audit run --samples 100", 0, Not(HasSubstr("what the trace says")));
  expect_says("audit run --same-as run", 0, HasSubstr("what the trace says"));
  expect_says("audit run --samples 60,40", 1, HasSubstr("100 samples, not 60 + 40"));
}

TEST_F(Tool, TakesAnotherTraceOfAStreamForWhatItsShardsHold) {
  FakeStream().write(dir_ / "run");
  expect_says("audit run", 0, HasSubstr("what shards hold is not known"));
  expect_says("audit run --same-as run", 0,
              AllOf(HasSubstr("the same samples of each shard"), Not(HasSubstr("is not known"))));
}

#ifdef ROTA_MPI
TEST_F(Tool, SaysWhatACheckpointHolds) {
  make_data(40);
  ASSERT_EQ(phase(2, "--batch 8 --shards 10 --stop-after 2").code, 0);
  expect_says("inspect checkpoints/checkpoint-000000000000.h5", 0,
              AllOf(HasSubstr("loader/main/cursors"), HasSubstr("[10, 2]"), HasSubstr("demo/phase"),
                    HasSubstr("loader \"main\" is a Loader\n"), HasSubstr("at epoch 0, sample 16, step 2"),
                    HasSubstr("40 samples with fingerprint"), HasSubstr("10 shards"), HasSubstr("seed"),
                    HasSubstr("shuffle"), HasSubstr("batch 8")));
}
#endif

TEST_F(Tool, RefusesToInspectWhatIsNoCheckpoint) {
  write("a-file", "hello");
  expect_says("inspect a-file", 1, AllOf(HasSubstr("error: "), HasSubstr("a-file")));
  EXPECT_EQ(rota("inspect /nowhere.h5").code, 1);
  EXPECT_THAT(rota("inspect /tmp").output, HasSubstr("use rota verify"));
}

TEST_F(Tool, TellsItsUsage) {
  EXPECT_EQ(rota("--help").code, 0);
  EXPECT_THAT(rota("--version").output, HasSubstr("rota 0."));
  EXPECT_EQ(rota("").code, 2);
  EXPECT_EQ(rota("audit").code, 2);
  EXPECT_EQ(rota("audit /nowhere --samples 3").code, 1);
}

}  // namespace rota::test::tool_test
