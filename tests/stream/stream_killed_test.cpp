// A run over a stream whose ranks are killed again and again, and which goes on with other numbers of ranks,
// delivers what an unbroken run delivers: the audit of both traces says so.

#include "cli/audit.hpp"
#include "run_command.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test::stream_killed_test {

/// The rank `victim` kills itself in step `step` of a start.
struct Kill {
  int ranks;
  int batch;
  int victim;
  int step;
};

/// A run whose ranks are those of streamer.cpp, which saves every fifth step.
class KilledRun {
 public:
  explicit KilledRun(bool is_dispatched) : is_dispatched_(is_dispatched) {}

  void end(int ranks, int batch) const { EXPECT_EQ(start(ranks, batch, "").code, 0); }
  void end_killed(const Kill& kill) const {
    const Ended ended = start(kill.ranks, kill.batch, fmt::format("{} {}", kill.victim, kill.step));
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
    EXPECT_EQ(report.samples, std::ssize(whole(*streamed(is_dispatched_), kStreamedEpochs)));
  }

 private:
  Ended start(int ranks, int batch, const std::string& victim) const {
    return run_command(fmt::format("timeout 100 {} {} {}/test_child streamer {} {} {} {} {}", ROTA_MPIEXEC,
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

/// A run is killed again and again, and then comes to its end with `ranks` ranks.
void expect_survives(bool is_dispatched, const std::vector<Kill>& kills, int ranks, int batch) {
  const KilledRun run(is_dispatched);
  for (const Kill& kill : kills) run.end_killed(kill);
  run.end(ranks, batch);
  run.expect_whole(kills.size() + 1);
}

// Before the first save, and behind one.
TEST(Killed, AStreamGoesOnWithOtherRanks) { expect_survives(false, {{3, 16, 2, 2}, {2, 16, 0, 8}}, 3, 12); }
TEST(Killed, ADispatchGoesOnWithOtherRanks) { expect_survives(true, {{3, 16, 0, 2}, {2, 16, 1, 8}}, 3, 12); }

TEST(KilledCampaign, AStreamGoesOnWithAnyRanks) {
  expect_survives(false, {{8, 16, 1, 13}, {7, 7, 0, 4}, {13, 20, 4, 17}, {1, 8, 0, 11}, {32, 16, 31, 6}}, 5,
                  12);
}
TEST(KilledCampaign, ADispatchGoesOnWithAnyRanks) {
  expect_survives(true, {{8, 16, 0, 13}, {7, 16, 6, 8}, {13, 16, 4, 17}, {1, 16, 0, 7}, {32, 16, 0, 6}}, 5,
                  16);
}

}  // namespace rota::test::stream_killed_test
