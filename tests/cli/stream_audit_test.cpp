// Audits of streams that were never read: the sound run passes, and each thing that can go wrong is found.

#include "cli/stream_audit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "rota/error.hpp"
#include "temporary_directory.hpp"

namespace rota::tracing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

/// Two epochs of two shards of 4 and 6 samples, two of each a step where there are, by two ranks that own one
/// each; then, from step 3 of the second epoch on, by one rank.
class FakeStream {
 public:
  FakeStream() {
    for (std::int64_t step = 0; step < 5; ++step) {
      for (int rank = 0; rank < 2; ++rank) add({0, rank}, step, {rank});
    }
    for (std::int64_t step = 4; step < 6; ++step) add({1, 0}, step, {0, 1});
  }

  using Key = std::pair<std::int64_t, int>;  // phase, rank
  std::map<Key, std::vector<StreamTraceBatch>> batches;
  std::map<Key, StreamPosition> ends{{{1, 0}, {.epoch = 2, .step = 6}}};
  int worlds[2] = {2, 1};
  StreamPosition resumed[2] = {{}, {.epoch = 1, .step = 4}};
  Split split = Split::by_shard;

  void write(const std::filesystem::path& dir) const {
    for (const auto& [key, records] : batches) {
      const auto [phase, rank] = key;
      StreamTraceWriter writer(dir, {.phase = phase,
                                     .world = {.rank = rank, .size = worlds[phase]},
                                     .shards = 2,
                                     .batch = 4,
                                     .split = split,
                                     .resumed_from = resumed[phase]});
      for (const StreamTraceBatch& batch : records) writer.write(batch);
      if (ends.contains(key)) writer.end(ends.at(key));
    }
  }

 private:
  void add(Key key, std::int64_t step, const std::vector<std::int64_t>& shards) {
    const std::int64_t epoch = step / 3;
    StreamTraceBatch batch{.start = {.epoch = epoch, .step = step}};
    for (const std::int64_t shard : shards) {
      for (std::int64_t position = step % 3 * 2; position < step % 3 * 2 + 2 && position < 4 + 2 * shard;
           ++position) {
        batch.ids.push_back({.shard = {shard}, .input = 10 * position});
        batch.positions.push_back(position);
        batch.digests.push_back(static_cast<std::uint64_t>(100 * shard + position));
      }
    }
    batches[key].push_back(batch);
  }
};

StreamAuditReport audit_of(const FakeStream& run, const StreamAuditOptions& options = {}) {
  const test::TemporaryDirectory dir;
  run.write(dir.path());
  return audit_streams(dir.path(), options);
}

TEST(StreamAudit, PassesASoundRunThatWasRolledBackAndRescaled) {
  const StreamAuditReport report = audit_of({}, {.samples = 10, .epochs = 2, .complete = true});
  EXPECT_TRUE(report.passed()) << stream_audit_text(report, "run");
  EXPECT_EQ(report.samples, 20);
  EXPECT_EQ(report.phases.at(0).rolled_back, 1);
  EXPECT_THAT(stream_audit_text(report, "run"), ::testing::HasSubstr("passed"));
}

TEST(StreamAudit, PassesOverAStepThatAKilledRankHasNotWritten) {
  FakeStream run;
  run.ends.clear();
  EXPECT_TRUE(audit_of(run).passed());
  run = {};
  run.batches.erase({1, 0});
  run.ends.clear();
  run.batches[{0, 1}].pop_back();
  const StreamAuditReport report = audit_of(run);
  EXPECT_TRUE(report.passed()) << stream_audit_text(report, "run");
  EXPECT_EQ(report.end.step, 4);
}

TEST(StreamAudit, LetsRanksShareAShardWhereTheyAreDispatchedToBySample) {
  FakeStream run;
  std::swap(run.batches[{0, 0}][1].ids, run.batches[{0, 1}][1].ids);
  EXPECT_FALSE(audit_of(run).passed());
  run.split = Split::by_sample;
  const StreamAuditReport report = audit_of(run);
  EXPECT_TRUE(report.passed()) << stream_audit_text(report, "run");
}

struct Breakage {
  const char* name;
  std::function<void(FakeStream&)> apply;
  ProblemKind kind;
};
void PrintTo(const Breakage& breakage, std::ostream* out) { *out << breakage.name; }

StreamTraceBatch& batch(FakeStream& run, int rank, std::size_t step) { return run.batches[{0, rank}][step]; }

class StreamAuditFinds : public ::testing::TestWithParam<Breakage> {};

TEST_P(StreamAuditFinds, WhatIsBroken) {
  FakeStream run;
  GetParam().apply(run);
  const StreamAuditReport report = audit_of(run, {.samples = 10, .epochs = 2});
  std::vector<ProblemKind> kinds;
  for (const Problem& problem : report.problems) kinds.push_back(problem.kind);
  EXPECT_THAT(kinds, Contains(GetParam().kind)) << stream_audit_text(report, "run");
}

void drop_last_sample(StreamTraceBatch& batch) {
  batch.ids.pop_back();
  batch.positions.pop_back();
  batch.digests.pop_back();
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamAuditFinds,
    ::testing::Values(
        Breakage{"AMissingSample", [](FakeStream& run) { drop_last_sample(batch(run, 0, 0)); },
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
        Breakage{"AnotherEpochOnOneRank", [](FakeStream& run) { batch(run, 0, 2).start.epoch = 1; },
                 ProblemKind::lockstep},
        Breakage{"AnEmptyStep",
                 [](FakeStream& run) {
                   for (int rank = 0; rank < 2; ++rank) batch(run, rank, 1) = {.start = {.step = 1}};
                 },
                 ProblemKind::size},
        Breakage{"AShardOfTwoRanks",
                 [](FakeStream& run) { std::swap(batch(run, 0, 1).ids, batch(run, 1, 1).ids); },
                 ProblemKind::owner},
        Breakage{"ARankWithoutATrace",
                 [](FakeStream& run) {
                   run.batches.erase({0, 1});
                 },
                 ProblemKind::files},
        Breakage{"OtherBytesWhenRunAgain", [](FakeStream& run) { batch(run, 1, 4).digests[0] = 7; },
                 ProblemKind::content},
        Breakage{"OtherSamplesWhenRunAgain", [](FakeStream& run) { batch(run, 1, 4).ids[0].input = 7; },
                 ProblemKind::order},
        Breakage{"AShardThatThereIsNot", [](FakeStream& run) { batch(run, 1, 0).ids[0].shard = {2}; },
                 ProblemKind::range},
        Breakage{"AResumeFromWhereNobodyWas", [](FakeStream& run) { run.resumed[1].step = 6; },
                 ProblemKind::gap},
        Breakage{"ARunThatGoesOn", [](FakeStream& run) { run.ends.clear(); }, ProblemKind::unfinished},
        Breakage{"TooFewEpochs",
                 [](FakeStream& run) {
                   run.ends[{1, 0}].epoch = 1;
                 },
                 ProblemKind::unfinished}),
    [](const auto& test) { return test.param.name; });

TEST(StreamAudit, TellsWhereTwoRunsDiffer) {
  StreamAuditReport report = audit_of({});
  compare(report, audit_of({}), "other");
  EXPECT_THAT(report.problems, IsEmpty());
  FakeStream run;
  run.batches[{0, 1}][2].digests[0] = 9;
  compare(report, audit_of(run), "other");
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(
      to_string(report.problems[0]),
      "difference: epoch 0, shard 1: other samples than in other, or in another order, or with other bytes");
}

TEST(StreamAudit, SaysWhichRecordIsDamaged) {
  const test::TemporaryDirectory dir;
  FakeStream().write(dir.path());
  std::ofstream(dir / "phase-000001-rank-00000.jsonl", std::ios::app)
      << R"({"event":"batch","phase":1,"rank":0,"epoch":1,"step":7,"ids":["0:1"],"positions":[0],"digests":["00"]})"
      << "\n[]\n";
  const StreamAuditReport report = audit_streams(dir.path(), {});
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.problems[0].kind, ProblemKind::format);
  EXPECT_EQ(report.problems[0].count, 2);
  EXPECT_THAT(report.problems[0].text,
              ::testing::HasSubstr("phase-000001-rank-00000.jsonl:5: read a stream id"));
}

TEST(StreamAudit, OfNothingThrows) {
  const test::TemporaryDirectory dir;
  EXPECT_THROW(audit_streams(dir.path(), {}), Error);
  EXPECT_THROW(audit_streams(dir / "none", {}), Error);
}

}  // namespace
}  // namespace rota::tracing
