// Audits of streams that were never read: the sound run passes, and each thing that can go wrong is found.

#include "cli/audit.hpp"
#include "cli/fake_stream.hpp"
#include "source/reading.hpp"

namespace rota::test::stream_audit_test {

using namespace cli;  // NOLINT(google-build-using-namespace)

AuditReport audit_of(const FakeStream& run, const AuditOptions& options = {}) {
  const TemporaryDirectory dir;
  run.write(dir.path());
  return audit(dir.path(), options);
}

std::string text_of(const AuditReport& report) { return audit_text(report, "run", true); }

TEST(StreamAudit, PassesASoundRunThatWasRolledBackAndRescaled) {
  const AuditReport report = audit_of({}, {.samples = {10}, .epochs = 2, .complete = true});
  EXPECT_TRUE(report.passed()) << text_of(report);
  EXPECT_EQ(report.samples, 20);
  EXPECT_EQ(report.phases.at(0).rolled_back, 1);
  EXPECT_THAT(text_of(report), HasSubstr("passed"));
}

TEST(StreamAudit, PassesOverAStepThatAKilledRankHasNotWritten) {
  FakeStream run;
  run.ends.clear();
  EXPECT_TRUE(audit_of(run, {.running = true}).passed());
  run = {};
  run.batches.erase({1, 0});
  run.ends.clear();
  run.batches[{0, 1}].pop_back();
  EXPECT_FALSE(audit_of(run).passed());
  const AuditReport report = audit_of(run, {.running = true});
  EXPECT_TRUE(report.passed()) << text_of(report);
  EXPECT_EQ(report.end.step, 4);
}

TEST(StreamAudit, LetsRanksShareAShardWhereTheyAreDispatchedToBySample) {
  FakeStream run;
  std::swap(run.batches[{0, 0}][1].ids, run.batches[{0, 1}][1].ids);
  EXPECT_FALSE(audit_of(run).passed());
  run.split = "by_sample";
  const AuditReport report = audit_of(run);
  EXPECT_TRUE(report.passed()) << text_of(report);
}

// Rank 1 was killed before step 4, in which rank 0 has the second of two samples of shard 1.
TEST(StreamAudit, PassesOverWhatAKilledRankHadOfASharedShard) {
  FakeStream run;
  run.split = "by_sample";
  FakeStreamBatch& last = run.batches[{0, 0}][4];
  std::tie(last.ids[1], last.positions[1], last.digests[1]) = std::tuple(FakeStreamBatch::Id{1, 30}, 3, 103);
  run.batches[{0, 1}].pop_back();
  const AuditReport report = audit_of(run);
  EXPECT_TRUE(report.passed()) << text_of(report);
  EXPECT_EQ(report.phases[0].rolled_back, 1);
}

struct Breakage {
  const char* name;
  std::function<void(FakeStream&)> apply;
  ProblemKind kind;
};
void PrintTo(const Breakage& breakage, std::ostream* out) { *out << breakage.name; }

FakeStreamBatch& batch(FakeStream& run, int rank, std::size_t step) { return run.batches[{0, rank}][step]; }

class StreamAuditFinds : public TestWithParam<Breakage> {};

TEST_P(StreamAuditFinds, WhatIsBroken) {
  FakeStream run;
  GetParam().apply(run);
  const AuditReport report = audit_of(run, {.samples = {10}, .epochs = 2});
  std::vector<ProblemKind> kinds;
  for (const Problem& problem : report.problems) kinds.push_back(problem.kind);
  EXPECT_THAT(kinds, Contains(GetParam().kind)) << text_of(report);
}

void drop_last_sample(FakeStreamBatch& batch) {
  batch.ids.pop_back();
  batch.positions.pop_back();
  batch.digests.pop_back();
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamAuditFinds,
    Values(Breakage{"AMissingSample", [](FakeStream& run) { drop_last_sample(batch(run, 0, 0)); },
                    ProblemKind::missing},
           Breakage{"AMissingLastSample", [](FakeStream& run) { drop_last_sample(batch(run, 1, 2)); },
                    ProblemKind::missing},
           Breakage{"ARepeatedPlace", [](FakeStream& run) { batch(run, 0, 1).positions[0] = 1; },
                    ProblemKind::repeated},
           Breakage{"ARepeatedSample", [](FakeStream& run) { batch(run, 1, 2).ids[1].input = 0; },
                    ProblemKind::repeated},
           Breakage{"AStepThatARankHasNot",
                    [](FakeStream& run) {
                      run.batches[{0, 1}].erase(run.batches[{0, 1}].begin() + 1);
                    },
                    ProblemKind::lockstep},
           Breakage{"AnotherEpochOnOneRank", [](FakeStream& run) { batch(run, 0, 2).epoch = 1; },
                    ProblemKind::lockstep},
           Breakage{"AnEmptyStep",
                    [](FakeStream& run) {
                      for (int rank = 0; rank < 2; ++rank) batch(run, rank, 1) = {.epoch = 0, .step = 1};
                    },
                    ProblemKind::batch},
           Breakage{"AShardOfTwoRanks",
                    [](FakeStream& run) { std::swap(batch(run, 0, 1).ids, batch(run, 1, 1).ids); },
                    ProblemKind::batch},
           Breakage{"ARankWithoutATrace",
                    [](FakeStream& run) {
                      run.batches.erase({0, 1});
                    },
                    ProblemKind::files},
           Breakage{"OtherBytesWhenRunAgain", [](FakeStream& run) { batch(run, 1, 4).digests[0] = 7; },
                    ProblemKind::content},
           Breakage{"OtherSamplesWhenRunAgain", [](FakeStream& run) { batch(run, 1, 4).ids[0].input = 7; },
                    ProblemKind::content},
           Breakage{"AShardThatThereIsNot", [](FakeStream& run) { batch(run, 1, 0).ids[0].shard = 2; },
                    ProblemKind::batch},
           Breakage{"AResumeFromWhereNobodyWas", [](FakeStream& run) { run.resumed[1].second = 6; },
                    ProblemKind::gap},
           Breakage{"ARunThatGoesOn", [](FakeStream& run) { run.ends.clear(); }, ProblemKind::missing},
           Breakage{"TooFewEpochs",
                    [](FakeStream& run) {
                      run.ends[{1, 0}].first = 1;
                    },
                    ProblemKind::missing}),
    [](const auto& test) { return test.param.name; });

TEST(StreamAudit, TellsWhereTwoRunsDiffer) {
  AuditReport report = audit_of({});
  compare(report, audit_of({}), "other");
  EXPECT_THAT(report.problems, IsEmpty());
  FakeStream run;
  run.batches[{0, 1}][2].digests[0] = 9;
  compare(report, audit_of(run), "other");
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(to_string(report.problems[0]),
            "difference: epoch 0, shard 1: another size, sample, mask or digest than in other");
}

// However many they are.
TEST(StreamAudit, TellsEpochsInARowThatHaveNothingAsOne) {
  FakeStream run;
  run.batches.clear();
  run.batches[{1, 0}] = {};
  run.ends.clear();
  run.resumed[1] = {std::int64_t{1} << 61, 0};
  EXPECT_EQ(audit_of(run).problems.size(), 1U);  // the gap
  EXPECT_THAT(text_of(audit_of(run, {.samples = {10}})),
              HasSubstr("epoch 0 to 2305843009213693951 lacks 10 of 10 samples"));
  run = {};
  run.batches[{1, 0}].back().epoch = std::int64_t{1} << 61;
  run.ends.clear();
  const AuditReport report = audit_of(run, {.samples = {10}});
  EXPECT_THAT(text_of(report), AllOf(HasSubstr("epoch 1 lacks 2 of 10 samples"),
                                     HasSubstr("(and 2305843009213693950 more like it)")));
}

TEST(StreamAudit, HasOneNumberOfSamples) {
  EXPECT_ERROR(audit_of({}, {.samples = {4, 6}}), invalid_argument, {"one number of samples"});
}

TEST(StreamAudit, SaysWhichRecordIsDamaged) {
  const TemporaryDirectory dir;
  FakeStream run;
  run.ends.clear();
  run.write(dir.path());
  std::ofstream(dir / "p1r0.jsonl", std::ios::app)
      << R"({"event":"batch","phase":1,"rank":0,"epoch":1,"step":7,"ids":["0:1"],"positions":[0],"digests":["0000000000000000"]})"
      << "\n[]\n";
  const AuditReport report = audit(dir.path(), {});
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.problems[0].kind, ProblemKind::format);
  EXPECT_EQ(report.problems[0].count, 2);
  EXPECT_THAT(report.problems[0].text, HasSubstr("p1r0.jsonl:4: read a stream id"));
}

}  // namespace rota::test::stream_audit_test
