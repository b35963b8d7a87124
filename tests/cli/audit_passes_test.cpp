#include "cli/audit_fixture.hpp"
#include "trace/traced_run.hpp"

namespace rota::test::audit_passes_test {

using cli::AuditReport;
using cli::ProblemKind;

/// Of three epochs with each tail, and of many sizes: four phases, of which `split` changes the last three.
void expect_nothing_wrong(FakeRun& (FakeRun::*split)()) {
  for (const std::string tail : {"partial", "carry", "drop", "pad"}) {
    for (const std::int64_t samples : {1, 7, 64, 100, 131}) {
      for (const std::int64_t batch : {1, 3, 16, 64, 300}) {
        SCOPED_TRACE(fmt::format("{}, {} samples in batches of {}", tail, samples, batch));
        FakeRun run(samples, tail, 3);
        run.phase(4, batch, 3);
        (run.*split)().phase(3, batch + 1, 2).phase(7, batch, 4).phase(1, batch);
        const AuditReport report = audit_of(run, {.batch = batch, .epochs = 3, .complete = true});
        EXPECT_THAT(report.problems, IsEmpty()) << text(report);
        const bool has_batches = tail != "drop" || batch <= samples;
        EXPECT_EQ(report.samples + report.dropped, has_batches ? 3 * samples : 0);
      }
    }
  }
}

TEST(Audit, FindsNothingWrongInARightRun) { expect_nothing_wrong(&FakeRun::by_sample); }
TEST(Audit, FindsNothingWrongWhereRanksReadWholeShards) { expect_nothing_wrong(&FakeRun::by_shard); }
TEST(Audit, FindsNothingWrongWhereRanksTakeTurns) { expect_nothing_wrong(&FakeRun::interleaved); }

TEST(Audit, SpeaksOfEqualSlicesWhereAllOfThemWereChecked) {
  const auto verdict = [](const FakeRun& run) { return cli::audit_text(audit_of(run), "run", true); };
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 5).interleaved().phase(3, 16, 2);
  EXPECT_THAT(verdict(run), HasSubstr("lockstep, equal slices, one content per sample\n"));
  run.by_shard().phase(2, 16);
  EXPECT_THAT(verdict(run), HasSubstr("lockstep, one content per sample\n"));
}

TEST(Audit, TellsHowFarAnUnfinishedRunCame) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 9);
  const AuditReport report = audit_of(run);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.end, (Position{1, 32, 9}));
}

TEST(Audit, CountsPaddingAndSkippedSamplesApart) {
  FakeRun run(20, "pad", 1);
  run.phase(2, 16);
  run.record(0, 0, 0).mask[3] = 2;
  const AuditReport report = audit_of(run, {.complete = true});
  EXPECT_THAT(report.problems, IsEmpty()) << text(report);
  EXPECT_EQ(report.padded, 12);
  EXPECT_EQ(report.skipped, 1);
}

TEST(Audit, DoesNotCompareTheBytesOfSkippedSamples) {
  FakeRun run = three_worlds();
  run.record(0, 0, 0).mask[3] = 2;
  run.record(0, 0, 0).digests[3] = 0;
  EXPECT_THAT(audit_of(run).problems, IsEmpty());
}

TEST(Audit, IgnoresBatchesThatWereRolledBack) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 6).back_to(0, 64).phase(3, 16);
  const AuditReport report = audit_of(run, {.epochs = 2});
  EXPECT_THAT(report.problems, IsEmpty()) << text(report);
  EXPECT_EQ(report.phases[0].rolled_back, 2);
}

TEST(Audit, FollowsAChainOfPhasesThatWereRolledBackEntirely) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 6).back_to(0, 64).phase(3, 16, 3).back_to(0, 32).phase(4, 16, 0).phase(1, 16);
  const AuditReport report = audit_of(run, {.epochs = 2});
  EXPECT_THAT(report.problems, IsEmpty()) << text(report);
  EXPECT_EQ(report.phases[0].steps, 2);
  EXPECT_EQ(report.phases[1].steps, 0);
}

TEST(Audit, ForgivesAKilledPhaseWhatWasRolledBack) {
  FakeRun run(100, "partial", 2);
  run.phase(3, 16, 6).back_to(0, 64).phase(2, 16);
  run.file(0, 1).records.resize(4);
  run.file(0, 2).records.resize(5);
  run.file(0, 2).last_words = R"({"event":"batch","phase":0,"rank":2,"epo)";
  EXPECT_THAT(audit_of(run, {.epochs = 2}).problems, IsEmpty());
}

TEST(Audit, ForgivesAPhaseKilledBeforeAllRanksBegan) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 4).phase(3, 16, 0).phase(2, 16);
  run.remove(1, 2);
  EXPECT_THAT(audit_of(run, {.epochs = 2}).problems, IsEmpty());
}

TEST(Audit, IgnoresALastLineWithoutAnEnd) {
  FakeRun run = three_worlds();
  run.file(2, 0).last_words = R"({"event":"batch","phase":2,"rank":0,"epoch":7)";
  EXPECT_THAT(audit_of(run).problems, IsEmpty());
}

TEST(Audit, IgnoresEventsItDoesNotKnow) {
  FakeRun run = three_worlds();
  run.file(1, 0).last_words = "{\"event\":\"coffee\",\"cups\":2}\n";
  EXPECT_THAT(audit_of(run).problems, IsEmpty());
}

TEST(Audit, LooksAtWhatAllRanksOfARunningPhaseHave) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 4).phase(3, 16, 3);
  run.file(1, 1).records.resize(2);
  EXPECT_THAT(kinds(audit_of(run)), ElementsAre(ProblemKind::lockstep, ProblemKind::missing));
  const AuditReport report = audit_of(run, {.running = true});
  EXPECT_THAT(report.problems, IsEmpty()) << text(report);
  EXPECT_EQ(report.end, (Position{0, 96, 6}));
}

TEST(Audit, LetsDropLeaveOutLessThanABatch) {
  FakeRun run(100, "drop", 2);
  run.phase(2, 16, 5).phase(2, 30);  // 20 are left for batches of 30
  const AuditReport report = audit_of(run, {.epochs = 2});
  EXPECT_THAT(report.problems, IsEmpty()) << text(report);
  EXPECT_EQ(report.dropped, 20 + 10);
}

TEST(Audit, CountsWhatALoaderSkipsInAnyWorld) {
  const auto source = faulty(50, true);
  source->corrupt = {0, 3, 4, 31, 49};
  source->corrupt_sizes = {7};
  for (const Tail tail : {Tail::partial, Tail::carry, Tail::pad}) {
    const TemporaryDirectory dir;
    const LoaderOptions options{.global_batch_size = 8,
                                .tail = tail,
                                .epochs = 2,
                                .bad_samples = {.policy = BadSamples::Policy::skip}};
    const auto make = [&](World world) { return Loader(source, options, world); };
    const Position at = run_phase(dir.path(), make, 0, 3, {}, 4);
    run_phase(dir.path(), make, 2, 7, run_phase(dir.path(), make, 1, 1, at, 5));
    const AuditReport report = cli::audit(dir.path(), {.samples = {50}, .epochs = 2, .complete = true});
    EXPECT_THAT(report.problems, IsEmpty()) << text(report);
    EXPECT_EQ(report.samples, 100);
    EXPECT_EQ(report.skipped, 12);
  }
}

}  // namespace rota::test::audit_passes_test
