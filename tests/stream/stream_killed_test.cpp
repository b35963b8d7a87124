// A run over a stream whose ranks are killed again and again, and which goes on with other numbers of ranks,
// delivers what an unbroken run delivers: the audit of both traces says so.

#include "cli/audit.hpp"
#include "run_command.hpp"
#include "stream/numbered_stream.hpp"
#include "test.hpp"

namespace rota::test::stream_killed_test {

/// A run whose ranks are those of streamer.cpp, which saves every fifth step.
class KilledRun {
 public:
  explicit KilledRun(bool is_dispatched) : is_dispatched_(is_dispatched) {}

  void end(int ranks, int batch) const { EXPECT_EQ(start(ranks, batch, "").code, 0); }
  /// `victim` kills itself in step `step` of this start.
  void end_killed(int ranks, int batch, int victim, int step) const {
    const Ended ended = start(ranks, batch, fmt::format("{} {}", victim, step));
    EXPECT_THAT(ended.output, HasSubstr("signal 9")) << ended.code;
  }
  /// Each sample was delivered once, as in a run that nobody kills.
  void expect_whole(std::size_t phases) const {
    const KilledRun unbroken(is_dispatched_);
    unbroken.end(1, 16);
    cli::AuditReport report = audit();
    compare(report, unbroken.audit(), unbroken.traces_.path());
    EXPECT_TRUE(report.passed()) << audit_text(report, traces_.path(), true);
    EXPECT_EQ(report.phases.size(), phases);
    EXPECT_GT(report.phases[0].rolled_back, 0);
    std::int64_t samples = 0;
    for (const auto& [shard, seen] : whole(*streamed(is_dispatched_), kStreamedEpochs))
      samples += std::ssize(seen);
    EXPECT_EQ(report.samples, samples);
  }

 private:
  Ended start(int ranks, int batch, const std::string& victim) const {
    return run_command(fmt::format("timeout 100 {} {} {}/test_helper streamer {} {} {} {} {}", ROTA_MPIEXEC,
                                   ranks, ROTA_PROGRAMS, is_dispatched_ ? "--dispatch" : "",
                                   traces_.path().string(), checkpoints_.path().string(), batch, victim));
  }
  cli::AuditReport audit() const {
    return cli::audit(traces_.path(), {.epochs = kStreamedEpochs, .complete = true});
  }

  bool is_dispatched_;
  TemporaryDirectory traces_;
  TemporaryDirectory checkpoints_;
};

// Before its first save, and behind one.
TEST(Killed, AStreamGoesOnWithAnotherNumberOfRanks) {
  const KilledRun run(false);
  run.end_killed(3, 16, 2, 2);
  run.end_killed(2, 16, 0, 8);
  run.end(3, 12);
  run.expect_whole(3);
}

TEST(Killed, ADispatchGoesOnWithAnotherNumberOfRanks) {
  const KilledRun run(true);
  run.end_killed(3, 16, 0, 2);
  run.end_killed(2, 16, 1, 8);
  run.end(3, 12);
  run.expect_whole(3);
}

TEST(KilledCampaign, AStreamGoesOnWithAnyNumberOfRanks) {
  const KilledRun run(false);
  run.end_killed(8, 16, 1, 13);
  run.end_killed(7, 7, 0, 4);
  run.end_killed(13, 20, 4, 17);
  run.end_killed(1, 8, 0, 11);
  run.end_killed(32, 16, 31, 6);
  run.end(5, 12);
  run.expect_whole(6);
}

TEST(KilledCampaign, ADispatchGoesOnWithAnyNumberOfRanks) {
  const KilledRun run(true);
  run.end_killed(8, 16, 0, 13);
  run.end_killed(7, 16, 6, 8);
  run.end_killed(13, 16, 4, 17);
  run.end_killed(1, 16, 0, 7);
  run.end_killed(32, 16, 0, 6);
  run.end(5, 16);
  run.expect_whole(6);
}

}  // namespace rota::test::stream_killed_test
