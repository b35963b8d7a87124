// The promise of rota: whatever worlds take turns, with checkpoints between them, every sample of an epoch is
// read once, in the batches of a run that never stopped.

#include "loader/course.hpp"

namespace rota::test::rescale_test {

std::vector<Step> through(Course course, const std::vector<Turn>& turns) {
  Checkpoints checkpoints;
  std::vector<Step> steps;
  for (const Turn& turn : turns) {
    course.options.workers = turn.workers;
    SideBySide ranks(turn.ranks, [&](World world) { return course.make(world); });
    if (course.take(turn, ranks, *checkpoints, steps)) return steps;
  }
  ADD_FAILURE() << "the run has no end";
  return steps;
}

/// Complete epochs of each dataset have no gap, where none is meant.
void expect_every_sample_once(const Course& course, const std::vector<Step>& steps) {
  std::map<std::int64_t, std::int64_t> counts;  // by dataset
  const auto times = times_read(steps);
  for (const auto& [sample, count] : times) {
    ASSERT_EQ(count, 1) << "sample " << sample[2] << " in epoch " << sample[1];
    ++counts[sample[0]];
  }
  if (course.source && course.options.tail == Tail::drop) return;
  if (course.source) {
    EXPECT_EQ(counts[0], course.source->size() * course.options.epochs);
  }
  for (const auto& [dataset, count] : counts) {
    const std::int64_t size = course.source
                                  ? course.source->size()
                                  : course.mixture.datasets[static_cast<std::size_t>(dataset)].source->size();
    const auto in_complete = std::ranges::count_if(times, [&, d = dataset, n = count](const auto& read) {
      return read.first[0] == d && read.first[1] < n / size;
    });
    EXPECT_EQ(in_complete, count / size * size) << "dataset " << dataset;
  }
}

/// Each slot has what the source has under its id.
void expect_content(const Course& course) {
  Loader loader = course.make(World{});
  for (const Batch& batch : loader) {
    const Samples samples(loader.source(), {batch.ids().begin(), batch.ids().end()}, false);
    for (std::size_t i = 0; i < batch.ids().size(); ++i) {
      for (std::size_t f = 0; f < batch.fields().size(); ++f) {
        ASSERT_EQ(samples.sample(f, i), text_of(batch.bytes(f, static_cast<std::int64_t>(i))));
      }
    }
  }
}

class Rescale : public TestWithParam<std::string> {};

TEST_P(Rescale, AnyChainOfWorldsReadsEverySampleOnceInTheSameBatches) {
  for_seeds(12, [&](std::uint64_t, std::mt19937_64& random) {
    const Course course = random_course(GetParam(), random);
    auto turns = random_turns(random, 8);
    for (std::size_t i = 0; i < 6; ++i) turns[i].ranks = std::array{8, 7, 13, 1, 32, 5}[i];
    const auto steps = through(course, turns);
    ASSERT_EQ(steps, course.unbroken());
    expect_every_sample_once(course, steps);
    expect_content(course);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Rescale, ValuesIn(kCourses), [](const auto& of) { return of.param; });

// ---- worlds and datasets on which other loaders repeat samples, lose them, hang or refuse ----

void expect_once(const Course& course, const std::vector<Turn>& turns) {
  const auto steps = through(course, turns);
  EXPECT_EQ(steps, course.unbroken());
  expect_every_sample_once(course, steps);
}

TEST(Scenario, AHundredDocumentsIn12ShardsGoFromFourWorkersToAnyNumber) {
  for (const int workers : {1, 2, 3, 6, 12}) {
    expect_once({.source = counting(100), .options = {.global_batch_size = 6, .shards = 12}},
                {{.workers = 4, .steps = 7}, {.workers = workers}});
  }
}

TEST(Scenario, DocumentsThatSequencesCutGoFromFourRanksOrWorkersToAnyNumber) {
  const Numbers lengths(100, 100);
  const auto packed = pack(std::make_shared<Documents>(lengths), {.length = 12});
  ASSERT_EQ(packed->size(), 834);
  const Course course{.source = packed, .options = {.global_batch_size = 24, .shards = 7}};
  for (const int then : {1, 2, 3, 6, 12}) {
    expect_once(course, {{.ranks = 4, .workers = 1, .steps = 11}, {.ranks = then, .workers = 1}});
    expect_once(course, {{.workers = 4, .steps = 11}, {.workers = then}});
  }
}

TEST(Scenario, TwentyShardsGoToFiveRanksOfTwoWorkers) {
  expect_once({.source = counting(1003), .options = {.global_batch_size = 32, .shards = 20, .epochs = 2}},
              {{.ranks = 5, .workers = 2, .steps = 11}, {.ranks = 5, .workers = 2}});
}

TEST(Scenario, ManyShardsThatNothingDividesGoThroughManyWorlds) {
  std::vector<Turn> turns;
  for (const int ranks : {2, 3, 7}) {
    for (const int workers : {0, 2, 3}) turns.push_back({.ranks = ranks, .workers = workers, .steps = 8});
  }
  turns.push_back({.workers = 1});
  expect_once({.source = counting(2000), .options = {.global_batch_size = 21, .shards = 555}}, turns);
}

TEST(Scenario, ShardsThatAreNoMultipleOfWorkersStayWholeWhenWorkersChange) {
  for (const std::int64_t shards : {300, 555, 721}) {
    const Course course{.source = counting(900), .options = {.global_batch_size = 32, .shards = shards}};
    for (const int before : {1, 2, 6}) {
      for (const int after : {3, 4})
        expect_once(course, {{.workers = before, .steps = 13}, {.workers = after}});
    }
  }
}

TEST(Scenario, PartsOfZeroAHundredAnd37SamplesEndTogether) {
  for (const auto split : {Split::by_sample, Split::by_shard, Split::interleaved}) {
    expect_once(
        {.source = counting(137, {0, 100, 37}),
         .options = {.global_batch_size = 8, .shards = 3, .rank_split = split, .worker_split = split}},
        {{.ranks = 3, .workers = 2, .steps = 5}, {.ranks = 2, .workers = 3}});
  }
}

TEST(Scenario, EightRanksTakeSixteenStepsOfABatchThatDoesNotDivideTheSamples) {
  const Course course{.source = counting(1020), .options = {.global_batch_size = 64}};
  expect_once(course, {{.ranks = 8, .workers = 1}});
  EXPECT_EQ(course.unbroken().size(), 16U);
}

TEST(Scenario, TwoDatasetsMixedThreeToFiveGoFromTwoRanksToFour) {
  const Course course{
      .mixture = {.datasets = {{counting(300), 3}, {counting(500), 5}}, .end = MixtureEnd::all_exhausted},
      .options = {.global_batch_size = 16, .shards = 8}};
  expect_once(course, {{.ranks = 2, .workers = 1, .steps = 20}, {.ranks = 4, .workers = 1}});
  EXPECT_THAT(times_read(course.unbroken()), SizeIs(800));
}

TEST(Loader, RescalesInMemoryBetweenAnyTwoSteps) {
  const Course course{
      .source = counting(500, {100, 0, 250, 50, 100}),
      .options = {.global_batch_size = 16, .shards = 5, .tail = Tail::carry, .epochs = 3, .workers = 1}};
  std::vector<Step> steps;
  Position at;
  for (const int size : {8, 7, 13, 1, 32, 5}) {
    SideBySide ranks(size, [&](World world) {
      Loader loader = course.make(World{});
      loader.seek(at);
      loader.rescale(world);
      return loader;
    });
    for (int k = 0; k < 9; ++k) steps.push_back(*ranks.step());
    at = ranks.front().position();
  }
  auto expected = course.unbroken();
  expected.resize(steps.size());
  EXPECT_EQ(steps, expected);
}

}  // namespace rota::test::rescale_test
