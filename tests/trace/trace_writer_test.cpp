#include "cli/audit.hpp"
#include "moved_from.hpp"
#include "rota/resume.hpp"
#include "trace/traced_run.hpp"
#include "unprivileged.hpp"

namespace rota::test::trace_writer_test {

Loader small_loader() { return one_dataset(10, {.global_batch_size = 4})({}); }

/// What an audit says of a run in which it finds no problem.
cli::AuditReport good_audit(const TemporaryDirectory& dir, const cli::AuditOptions& options) {
  cli::AuditReport report = cli::audit(dir.path(), options);
  EXPECT_THAT(report.problems, IsEmpty()) << cli::audit_text(report, "run", true);
  return report;
}

TEST(TraceWriter, WritesWhatAnAuditPassesAtEveryTailAndSplit) {
  for (const Tail tail : kTails) {
    for (const Split split : kSplits) {
      const TemporaryDirectory dir;
      run_in_three_worlds(
          dir.path(),
          one_dataset(50,
                      {.global_batch_size = 8, .shards = 9, .tail = tail, .rank_split = split, .epochs = 2}));
      const auto report = good_audit(dir, {.samples = {50}, .epochs = 2, .complete = true});
      EXPECT_EQ(report.samples + report.dropped, 100);
      EXPECT_EQ(report.phases[1].rolled_back, 2);
    }
  }
}

// A slot of padding may repeat what a higher rank has in the same batch.
TEST(TraceWriter, WritesWhatAnAuditPassesOfBatchesBeyondTheDataset) {
  for (const int world : {1, 2, 3, 5}) {
    for (const Split split : kSplits) {
      const TemporaryDirectory dir;
      run_phase(
          dir.path(),
          one_dataset(
              3, {.global_batch_size = 9, .shards = 4, .tail = Tail::pad, .rank_split = split, .epochs = 2}),
          0, world, {});
      const auto report = good_audit(dir, {.samples = {3}, .epochs = 2, .complete = true});
      EXPECT_EQ(report.padded, 12);
    }
  }
}

TEST(TraceWriter, ThatWasMovedFromIsRefused) {
  const TemporaryDirectory dir;
  Loader loader = small_loader();
  TraceWriter from(dir.path(), loader);
  const TraceWriter to = std::move(from);
  const auto batch = loader.next();
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  expect_refused("a trace writer", {[&] { from.write(*batch); }, [&] { from.end(loader); }});
}

TEST(TraceWriter, ThatAForkedChildHasTooLeavesTheTraceToTheParent) {
  const TemporaryDirectory dir;
  Loader loader = small_loader();
  auto trace = std::make_unique<TraceWriter>(dir.path(), loader);
  trace->write(*loader.next());
  const auto batch = loader.next();
  const auto is_refused = AllOf(StartsWith("unsupported: use a trace writer"), HasSubstr("forked"));
  EXPECT_THAT(error_as_nobody([&] { trace->write(*batch); }), is_refused);
  EXPECT_THAT(error_as_nobody([&] { trace->end(loader); }), is_refused);
  EXPECT_EQ(error_as_nobody([&] { trace.reset(); }), "");
  trace->write(*batch);
  while (const auto next = loader.next()) trace->write(*next);
  trace->end(loader);
  good_audit(dir, {.samples = {10}, .epochs = 1, .complete = true});
}

TEST(TraceWriter, WritesWhatAnAuditPassesOfAMixture) {
  for (const Tail tail : kTails) {
    for (const MixtureEnd end : {MixtureEnd::first_exhausted, MixtureEnd::all_exhausted}) {
      const TemporaryDirectory dir;
      run_in_three_worlds(
          dir.path(), two_datasets({.global_batch_size = 7, .shards = 5, .tail = tail, .epochs = 2}, end));
      const auto report = good_audit(dir, {.samples = {40, 24}});
      ASSERT_EQ(report.datasets.size(), 2U);
      EXPECT_GE(report.datasets[end == MixtureEnd::first_exhausted ? 0 : 1].epochs,
                tail == Tail::drop ? 1 : 2);
    }
  }
}

TEST(TraceWriter, TakesNoPhaseFromANameThatNoneCanHave) {
  const TemporaryDirectory dir;
  dir.write("phase-9223372036854775807-rank-0.jsonl", "");
  EXPECT_EQ(TraceWriter(dir.path(), small_loader()).phase(), 0);
}

TEST(TraceWriter, RefusesRanksThatDoNotKnowTheirPhase) {
  const TemporaryDirectory dir;
  const Loader loader = one_dataset(10, {})({.rank = 1, .size = 2});
  EXPECT_ERROR(TraceWriter(dir.path(), loader), invalid_argument, {"rank 1 of 2 needs a communicator"});
}

TEST(TraceWriter, RefusesPhasesThatNoAuditWouldRead) {
  const TemporaryDirectory dir;
  const Loader loader = small_loader();
  const std::int64_t limit = std::int64_t{1} << 61;
  for (const std::int64_t phase : {std::int64_t{-1}, limit, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_ERROR(TraceWriter(dir.path(), loader, phase), invalid_argument, {"is not from 0 to 2^61 - 1"});
  }
  const TraceWriter last(dir.path(), loader, limit - 1);
  EXPECT_ERROR(TraceWriter(dir.path(), loader), invalid_argument, {"2^61 - 1"});
}

TEST(TraceWriter, OfAReplicaWritesNothing) {
  const TemporaryDirectory dir;
  Loader loader = one_dataset(10, {.global_batch_size = 4})({.rank = 0, .size = 1, .replica = 1});
  TraceWriter trace(dir.path(), loader);
  trace.write(*loader.next());
  trace.end(loader);
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(TraceWriter, RefusesWhatComesBehindTheEndAndBatchesOfAnotherLoader) {
  const TemporaryDirectory dir;
  Loader loader = small_loader();
  StreamLoader other(as_stream(faulty(3, false), 1));
  TraceWriter trace(dir.path(), loader);
  EXPECT_THAT([&] { trace.write(*other.next()); }, ThrowsMessage<Error>(HasSubstr("it is of a Loader")));
  trace.end(loader);
  EXPECT_THAT([&] { trace.end(loader); }, ThrowsMessage<Error>(HasSubstr("it has ended")));
}

TEST(TraceWriter, ThatFailsInTheMidstOfALineWritesItWholeWhenTriedAgain) {
  const TemporaryDirectory dir;
  Loader loader = small_loader();
  TraceWriter trace(dir.path(), loader);
  while (const auto batch = loader.next()) {
    const fs::path file = dir / "phase-000000-rank-00000.jsonl";
    const auto before = fs::file_size(file);
    EXPECT_TRUE(error_on_full_disk(before + 40, [&] { trace.write(*batch); }));
    EXPECT_EQ(fs::file_size(file), before + 40);
    trace.write(*batch);
  }
  trace.end(loader);
  good_audit(dir, {.samples = {10}, .epochs = 1});
}

}  // namespace rota::test::trace_writer_test
