// The `rota` tool, as a user calls it.

#include "cli/demo_fixture.hpp"
#include "cli/fake_run.hpp"
#include "cli/fake_stream.hpp"
#include "test.hpp"

namespace rota::test::tool_test {

using rota::test::DemoTest;
using rota::test::Ended;
using rota::test::run_command;

class Tool : public DemoTest {
 protected:
  Ended rota(const std::string& arguments) { return run_command("timeout 60 " ROTA_PROGRAMS "/rota" " " + arguments); }
  std::string write(const FakeRun& fake, const std::string& name) {
    fake.write(path(name));
    return path(name).string();
  }
};

TEST_F(Tool, PassesARightTrace) {
  FakeRun right(100, "partial", 2);
  const auto dir = write(right.phase(2, 16, 5).phase(3, 10), "right");
  const Ended ended = rota("audit " + dir + " --samples 100 --batch 16 --complete");
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("2 complete epochs of 100 samples"), HasSubstr("passed")));
}

TEST_F(Tool, FailsAWrongTraceAndSaysWhere) {
  FakeRun wrong(100, "partial", 2);
  wrong.phase(2, 16, 5).phase(3, 10).record(0, 1, 1).ids[0] = 100;
  const Ended ended = rota("audit " + write(wrong, "wrong") + " --samples 100 --batch 16");
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("FAILED: 2 problems"), HasSubstr("phase 0, rank 1, epoch 0, sample 16")));
}

TEST_F(Tool, ComparesTwoTraces) {
  FakeRun one(100, "partial", 1);
  FakeRun same(100, "partial", 1);
  FakeRun other(100, "partial", 1);
  const auto dir = write(one.phase(2, 16), "one");
  const auto audit = "audit " + dir + " --samples 100 --same-as ";
  EXPECT_EQ(rota(audit + write(same.phase(1, 16, 2).phase(7, 16), "same")).code, 0);
  const Ended ended = rota(audit + write(other.phase(2, 20), "other"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("difference: epoch 0, sample 0"));
}

TEST_F(Tool, AuditsStreams) {
  const auto write = [&](const char* name, std::int64_t second) {
    FakeStream run;
    run.batches[{0, 1}][0].positions[1] = second;
    std::filesystem::create_directory(path(name));
    run.write(path(name));
    return path(name).string();
  };
  const Ended right = rota("audit " + write("right", 1) + " --samples 10 --epochs 2");
  EXPECT_EQ(right.code, 0);
  EXPECT_THAT(right.output,
              AllOf(HasSubstr("2 complete epochs, 6 global batches, 20 samples"), HasSubstr("passed")));
  const Ended wrong = rota("audit " + write("wrong", 2) + " --same-as " + path("right").string());
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.output, AllOf(HasSubstr("missing: phase 0, rank 1: epoch 0: 1:10:0 is number 2"),
                                  HasSubstr("difference: epoch 0, shard 1")));
}

TEST_F(Tool, SaysWhatAnAuditTookFromTheTraceItself) {
  FakeRun run(100, "partial", 1);
  const auto dir = write(run.phase(2, 16), "run");
  const Ended ended = rota("audit " + dir);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output, HasSubstr("how many samples there are is what the trace says"));
  EXPECT_THAT(rota("audit " + dir + " --samples 100").output, Not(HasSubstr("what the trace says")));
  EXPECT_THAT(rota("audit " + dir + " --same-as " + dir).output, HasSubstr("what the trace says"));
  EXPECT_THAT(rota("audit " + dir + " --samples 60,40").output, HasSubstr("100 samples, not 60 + 40"));
}

TEST_F(Tool, TakesAnotherTraceOfAStreamForWhatItsShardsHold) {
  FakeStream().write(dir().path());
  const std::string audit = "audit " + dir().path().string();
  EXPECT_THAT(rota(audit).output, HasSubstr("what shards hold is not known"));
  EXPECT_THAT(rota(audit + " --same-as " + dir().path().string()).output,
              AllOf(HasSubstr("the same samples of each shard"), Not(HasSubstr("is not known"))));
}

TEST_F(Tool, SaysWhatACheckpointHolds) {
  make_data(40);
  ASSERT_EQ(phase(2, "--batch 8 --shards 10 --stop-after 2").code, 0);
  const Ended ended = rota("inspect " + path("checkpoints/checkpoint-000000000000.h5").string());
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("loader/main/cursors"), HasSubstr("[10, 2]"), HasSubstr("demo/phase")));
  EXPECT_THAT(ended.output,
              HasSubstr("loader \"main\" is a Loader in epoch 0, with 16 samples of it consumed"));
  EXPECT_THAT(ended.output, AllOf(HasSubstr("40 samples with fingerprint"), HasSubstr("10 shards"),
                                  HasSubstr("seed"), HasSubstr("shuffle"), HasSubstr("batch 8")));
}

TEST_F(Tool, RefusesToInspectWhatIsNoCheckpoint) {
  const Ended ended = rota("inspect " + dir().write("a-file", "hello").string());
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("error: "), HasSubstr("a-file")));
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
