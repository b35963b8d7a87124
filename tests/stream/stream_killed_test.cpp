// A run over a stream whose ranks are killed again and again, and which goes on with other numbers of ranks,
// delivers what an unbroken run delivers: the audit of both traces says so.

#include "cli/audit.hpp"
#include "run_command.hpp"
#include "stream/streamed.hpp"
#include "test.hpp"

namespace rota::test::stream_killed_test {

class StreamKilled : public ::testing::Test {
 protected:
  struct Run {
    TemporaryDirectory traces;
    TemporaryDirectory checkpoints;
  };
  Ended start(const Run& run, int ranks, int batch, const std::string& victim = "") const {
    return run_command(fmt::format("timeout 100 {} {} {} {} {} {} {} {}", ROTA_MPIEXEC, ranks, ROTA_PROGRAMS "/test_helper streamer",
                                   mode_, run.traces.path().string(), run.checkpoints.path().string(), batch,
                                   victim));
  }
  void expect_killed(const Run& run, int ranks, int batch, const std::string& victim) const {
    const Ended ended = start(run, ranks, batch, victim);
    EXPECT_THAT(ended.output, ::testing::HasSubstr("signal 9")) << ended.code;
  }
  static cli::AuditReport audit(const Run& run) {
    return cli::audit(run.traces.path(), {.epochs = kStreamedEpochs, .complete = true});
  }

  std::string mode_;
};

class DispatchKilled : public StreamKilled {
 protected:
  DispatchKilled() { mode_ = "--dispatch"; }
};

TEST_F(StreamKilled, AndRescaledDeliversWhatAnUnbrokenRunDelivers) {
  const Run unbroken;
  EXPECT_EQ(start(unbroken, 1, 16).code, 0);
  const Run broken;
  expect_killed(broken, 8, 16, "1 13");
  expect_killed(broken, 7, 7, "0 4");
  expect_killed(broken, 13, 20, "4 17");
  expect_killed(broken, 1, 8, "0 11");
  expect_killed(broken, 32, 16, "31 6");
  EXPECT_EQ(start(broken, 5, 12).code, 0);

  cli::AuditReport report = audit(broken);
  compare(report, audit(unbroken), unbroken.traces.path());
  EXPECT_TRUE(report.passed()) << audit_text(report, broken.traces.path(), true);
  EXPECT_EQ(report.phases.size(), 6U);
  EXPECT_GT(report.phases[0].rolled_back, 0);
  EXPECT_EQ(report.samples, count_samples(*streamed(), 0) + count_samples(*streamed(), 1));
}

TEST_F(StreamKilled, BeforeItsFirstSaveBeginsAnew) {
  const Run run;
  expect_killed(run, 3, 16, "2 2");
  expect_killed(run, 2, 16, "0 1");
  EXPECT_EQ(start(run, 4, 16).code, 0);
  const cli::AuditReport report = audit(run);
  EXPECT_TRUE(report.passed()) << audit_text(report, run.traces.path(), true);
}

TEST_F(DispatchKilled, AndRescaledDeliversWhatAnUnbrokenRunDelivers) {
  const Run unbroken;
  EXPECT_EQ(start(unbroken, 1, 16).code, 0);
  const Run broken;
  expect_killed(broken, 8, 16, "0 13");
  expect_killed(broken, 7, 16, "6 8");
  expect_killed(broken, 13, 16, "4 17");
  expect_killed(broken, 1, 16, "0 7");
  expect_killed(broken, 32, 16, "0 6");
  EXPECT_EQ(start(broken, 5, 16).code, 0);

  cli::AuditReport report = audit(broken);
  compare(report, audit(unbroken), unbroken.traces.path());
  EXPECT_TRUE(report.passed()) << audit_text(report, broken.traces.path(), true);
  EXPECT_EQ(report.phases.size(), 6U);
  EXPECT_GT(report.phases[0].rolled_back, 0);
  EXPECT_EQ(report.samples, count_samples(*dispatched(), 0) + count_samples(*dispatched(), 1));
}

}  // namespace rota::test::stream_killed_test
