// Traces of runs with plans: the auditor knows no plan, only the sizes of batches, and proves that all is
// accounted for.

#include <nlohmann/json.hpp>

#include "cli/audit.hpp"
#include "order/random_plan.hpp"
#include "rota/resume.hpp"
#include "trace/traced_run.hpp"

namespace rota::test::trace_plan_test {

using cli::audit;

/// A phase of so many steps; the state after `saved_after` of them. It ends with a word where the run is
/// over.
std::string take(const fs::path& dir, const MakeLoader& make, std::int64_t number, int size,
                 const std::string& saved, std::int64_t steps, std::int64_t saved_after) {
  std::string after = saved;
  for (int rank = 0; rank < size; ++rank) {
    Loader loader = make({.rank = rank, .size = size});
    if (!saved.empty()) restore(loader, saved);
    TraceWriter trace(dir, loader, number);
    bool is_over = false;
    for (std::int64_t step = 0; step < steps && !is_over; ++step) {
      if (step == saved_after) after = state(loader);
      const auto batch = loader.next();
      is_over = !batch;
      if (batch) trace.write(*batch);
    }
    if (is_over) trace.end(loader);
    if (is_over || steps == saved_after) after = state(loader);
  }
  return after;
}

TEST(TraceOfAPlan, PassesAnAuditWhereverItWasKilled) {
  for_seeds(60, [](std::uint64_t seed, std::mt19937_64& random) {
    const TemporaryDirectory dir;
    const bool is_mixture = seed % 5 == 0;
    const LoaderOptions options{.global_batch_size = draw(random, 3, 8),
                                .shards = 9,
                                .tail = kTails[seed % 4],
                                .rank_split = kSplits[seed % 3],
                                .epochs = 3,
                                .plan = random_plan(random, is_mixture ? 2 : 0, ids({1, 5, 17, 44, 49}))};
    const MakeLoader make = is_mixture ? two_datasets(options) : one_dataset(50, options);
    std::string saved;
    std::int64_t number = 0;
    for (const int size : {1, 3, 2}) {
      const std::int64_t steps = draw(random, 0, 5);
      saved = take(dir.path(), make, number++, size, saved, steps, draw(random, 0, steps));
    }
    take(dir.path(), make, number, 2, saved, 1000, 0);
    const auto report = is_mixture ? audit(dir.path(), {.samples = {40, 24}})
                                   : audit(dir.path(), {.samples = {50}, .epochs = 3, .complete = true});
    EXPECT_THAT(report.problems, IsEmpty())
        << cli::audit_text(report, "run", true) << to_string(options.plan);
  });
}

TEST(TraceOfAPlan, TellsOfChangesByHandThatAreToCome) {
  const TemporaryDirectory dir;
  Loader loader = one_dataset(100, {.global_batch_size = 8})({});
  for (int steps = 0; steps < 4; ++steps) (void)loader.next();
  loader.set_global_batch_size(5);
  loader.seek_step(0);
  TraceWriter trace(dir.path(), loader);
  while (const auto batch = loader.next()) trace.write(*batch);
  trace.end(loader);
  EXPECT_TRUE(audit(dir.path(), {.samples = {100}, .complete = true}).passed());
}

TEST(TraceOfAPlan, PassesWhereARunGoesBackAndOnByOtherWeights) {
  const TemporaryDirectory dir;
  const LoaderOptions options{.global_batch_size = 4, .epochs = 1000};
  const auto make = [&](double weight) {
    return [=](World world) {
      return Loader({.datasets = {{faulty(40, true), weight, "web"}, {faulty(24, true), 1, "code"}},
                     .end = MixtureEnd::all_exhausted},
                    options, world);
    };
  };
  const std::string saved = take(dir.path(), make(1), 0, 2, {}, 6, 3);
  take(dir.path(), make(3), 1, 2, saved, 6, 6);
  const auto report = audit(dir.path(), {.samples = {40, 24}});
  EXPECT_THAT(report.problems, IsEmpty()) << cli::audit_text(report, "run", true);
}

TEST(TraceOfAPlan, PassesWhereAStageEndsTheRun) {
  const TemporaryDirectory dir;
  const RunPlan plan{.stages = {{.begin = 2, .unit = Stage::Unit::steps, .global_batch_size = 3}}};
  take(dir.path(), one_dataset(6, {.global_batch_size = 2, .tail = Tail::drop, .plan = plan}), 0, 1, {}, 100,
       0);
  const auto report = audit(dir.path(), {.samples = {6}, .epochs = 1, .complete = true});
  EXPECT_THAT(report.problems, IsEmpty()) << cli::audit_text(report, "run", true);
}

TEST(TraceOfAPlan, IsFoundOutWhereAStepThatIsLeftOutIsLost) {
  const TemporaryDirectory dir;
  const LoaderOptions options{.global_batch_size = 8,
                              .plan = {.stages = {{.begin = 30, .global_batch_size = 5}}, .skip = {{2, 4}}}};
  take(dir.path(), one_dataset(50, options), 0, 1, {}, 100, 0);
  const fs::path file = dir.path() / "phase-000000-rank-00000.jsonl";
  auto lines = lines_of(file);
  const auto start = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(start["batches"], nlohmann::json({{4, 5}}));
  EXPECT_EQ(nlohmann::json::parse(lines[3])["mask"], nlohmann::json({2, 2, 2, 2, 2, 2, 2, 2}));
  ASSERT_TRUE(audit(dir.path(), {.samples = {50}, .complete = true}).passed());
  lines.erase(lines.begin() + 3);
  write_lines(file, lines);
  EXPECT_FALSE(audit(dir.path(), {.samples = {50}, .complete = true}).passed());
}

}  // namespace rota::test::trace_plan_test
