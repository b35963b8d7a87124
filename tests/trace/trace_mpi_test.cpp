// Traces that all ranks write together.

#include "cli/audit.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/reading.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::trace_mpi_test {

const mpi::Communicator& comm() { return mpi_session().comm(); }

/// A directory that all ranks see, and rank 0 removes.
class SharedDirectory {
 public:
  SharedDirectory() : owner_(comm().rank() == 0 ? std::make_unique<TemporaryDirectory>() : nullptr) {
    path_ = mpi::broadcast(comm(), owner_ ? owner_->path().string() : "");
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::unique_ptr<TemporaryDirectory> owner_;
  std::filesystem::path path_;
};

Loader make_loader() { return {faulty(40, true), {.global_batch_size = 8, .shards = 5}, comm().world()}; }

TEST(TraceWriterMpi, AllRanksWriteThePhasesOfOneRun) {
  const SharedDirectory dir;
  Position saved;
  for (std::int64_t phase = 0; phase < 3; ++phase) {
    Loader loader = make_loader();
    loader.seek(saved);
    TraceWriter trace(comm(), dir.path() / "traces", loader);
    EXPECT_EQ(trace.phase(), phase);
    for (int step = 0; step < 2 || phase == 2; ++step) {
      const auto batch = loader.next();
      if (!batch) break;
      trace.write(*batch);
    }
    trace.end(loader);
    if (phase == 0) saved = loader.position();
  }
  mpi::together(comm(), "finish", [] {});  // all have written
  mpi::together(comm(), "audit", [&] {
    const auto report = cli::audit(dir.path() / "traces", {.samples = {40}, .epochs = 1});
    EXPECT_TRUE(report.passed()) << cli::audit_text(report, "traces", true);
  });
}

TEST(TraceWriterMpi, WhatOneRankCannotBeginNoneDoes) {
  const SharedDirectory dir;
  const std::string last = std::to_string(comm().size() - 1);
  if (comm().rank() == 0) std::ofstream(dir.path() / ("phase-000000-rank-0000" + last + ".jsonl")) << "\n";
  const Loader loader = make_loader();
  EXPECT_THAT(
      [&] { TraceWriter(comm(), dir.path(), loader, {.phase = 0}); },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("rank-0000" + last + ".jsonl: File exists")));
  const std::string mine = fmt::format("phase-000000-rank-{:05}.jsonl", comm().rank());
  EXPECT_EQ(std::filesystem::exists(dir.path() / mine), comm().rank() + 1 == comm().size());
  mpi::together(comm(), "look", [] {});  // before the next phase
  EXPECT_EQ(TraceWriter(comm(), dir.path(), loader).phase(), 1);
}

TEST(TraceWriterMpi, IsBegunByNoRankWhereTheyGiveDifferentPhases) {
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  const SharedDirectory dir;
  const Loader loader = make_loader();
  const bool is_last = comm().rank() + 1 == comm().size();
  using Phase = std::optional<std::int64_t>;
  for (const Phase& odd : {Phase(4), Phase(-1), Phase()}) {
    EXPECT_THAT(
        error_of(
            [&] { TraceWriter(comm(), dir.path() / "traces", loader, {.phase = is_last ? odd : Phase(3)}); }),
        is_error(ErrorCode::mismatch, {"begin a trace: rank 0 has TraceOptions::phase 3; this rank has",
                                       odd ? std::to_string(*odd) : "no TraceOptions::phase"}));
  }
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "traces"));
  EXPECT_THAT(error_of([&] { TraceWriter(comm(), dir.path() / "traces", loader, {.phase = -1}); }),
              is_error(ErrorCode::invalid_argument, {"phase -1 is not from 0"}));
  EXPECT_EQ(TraceWriter(comm(), dir.path() / "traces", loader, {.phase = 3}).phase(), 3);
}

/// On all ranks the same is thrown, because one rank's loader was moved from.
template <typename AnyLoader>
void expect_no_rank_begins(AnyLoader loader) {
  const SharedDirectory dir;
  std::optional<AnyLoader> taken;
  if (comm().rank() + 1 == comm().size()) taken.emplace(std::move(loader));
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  EXPECT_THAT(error_of([&] { TraceWriter(comm(), dir.path() / "traces", loader); }),
              is_error(ErrorCode::invalid_argument, {"loader: it is empty, or was moved from"}));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "traces"));
}

TEST(TraceWriterMpi, IsBegunByNoRankWhereALoaderWasMovedFrom) {
  expect_no_rank_begins(make_loader());
  const auto source = as_stream(faulty(40, true), 4);
  expect_no_rank_begins(StreamLoader(comm(), source, {.global_batch_size = 8}));
}

}  // namespace rota::test::trace_mpi_test
