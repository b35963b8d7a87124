// Traces that all ranks write together.

#include "all_of_ranks.hpp"
#include "cli/audit.hpp"
#include "source/told_source.hpp"

namespace rota::test::trace_mpi_test {

Loader make_loader() { return {faulty(40, true), {.global_batch_size = 8, .shards = 5}, everyone().world()}; }

TEST(TraceWriterMpi, AllRanksWriteThePhasesOfOneRun) {
  const SharedDirectory dir;
  Position saved;
  for (std::int64_t phase = 0; phase < 3; ++phase) {
    Loader loader = make_loader();
    loader.seek(saved);
    TraceWriter trace(everyone(), dir.path() / "new" / "traces", loader);
    EXPECT_EQ(trace.phase(), phase);
    for (int step = 0; step < 2 || phase == 2; ++step) {
      const auto batch = loader.next();
      if (!batch) break;
      trace.write(*batch);
    }
    trace.end(loader);
    if (phase == 0) saved = loader.position();
  }
  everyone().together("finish", [] {});  // all have written
  everyone().together("audit", [&] {
    const auto report = cli::audit(dir.path() / "new" / "traces", {.samples = {40}, .epochs = 1});
    EXPECT_TRUE(report.passed()) << cli::audit_text(report, "traces", true);
  });
}

TEST(TraceWriterMpi, WhatOneRankCannotBeginNoneDoes) {
  const SharedDirectory dir;
  const std::string last = std::to_string(everyone().size() - 1);
  if (is_root()) std::ofstream(dir.path() / ("phase-000000-rank-0000" + last + ".jsonl")) << "\n";
  const Loader loader = make_loader();
  EXPECT_THAT([&] { TraceWriter(everyone(), dir.path(), loader, 0); },
              ThrowsMessage<Error>(HasSubstr("rank-0000" + last + ".jsonl: File exists")));
  const std::string mine = fmt::format("phase-000000-rank-{:05}.jsonl", everyone().rank());
  EXPECT_EQ(fs::exists(dir.path() / mine), is_last());
  everyone().together("look", [] {});  // before the next phase
  EXPECT_EQ(TraceWriter(everyone(), dir.path(), loader).phase(), 1);
}

TEST(TraceWriterMpi, IsBegunByNoRankWhereTheyGiveDifferentPhases) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const SharedDirectory dir;
  const Loader loader = make_loader();
  using Phase = std::optional<std::int64_t>;
  for (const Phase& odd : {Phase(4), Phase(-1), Phase()}) {
    EXPECT_ERROR(TraceWriter(everyone(), dir.path() / "traces", loader, is_last() ? odd : Phase(3)), mismatch,
                 {"begin a trace: rank 0 has phase 3 given; this rank has",
                  odd ? std::to_string(*odd) : "no phase given"});
  }
  EXPECT_FALSE(fs::exists(dir.path() / "traces"));
  EXPECT_ERROR(TraceWriter(everyone(), dir.path() / "traces", loader, -1), invalid_argument,
               {"phase -1 is not from 0"});
  EXPECT_EQ(TraceWriter(everyone(), dir.path() / "traces", loader, 3).phase(), 3);
}

/// On all ranks the same is thrown, because one rank's loader was moved from.
template <typename AnyLoader>
void expect_no_rank_begins(AnyLoader loader) {
  const SharedDirectory dir;
  std::optional<AnyLoader> taken;
  if (is_last()) taken.emplace(std::move(loader));
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  EXPECT_ERROR(TraceWriter(everyone(), dir.path() / "traces", loader), invalid_argument,
               {"loader: it is empty, or was moved from"});
  EXPECT_FALSE(fs::exists(dir.path() / "traces"));
}

TEST(TraceWriterMpi, IsBegunByNoRankWhereALoaderWasMovedFrom) {
  expect_no_rank_begins(make_loader());
  expect_no_rank_begins(StreamLoader(everyone(), as_stream(faulty(40, true), 4)));
}

}  // namespace rota::test::trace_mpi_test
