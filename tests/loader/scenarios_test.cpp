// Worlds and datasets on which other loaders repeat samples, lose them, hang or refuse.

#include "loader/side_by_side.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::scenarios_test {

struct Stop {
  int ranks;
  int workers;
  int steps;  // then it stops
};
constexpr int kToTheEnd = 1 << 30;

/// A run that stops, is saved, and goes on elsewhere.
class Scenario {
 public:
  Scenario(std::shared_ptr<const Source> source, LoaderOptions options)
      : source_(std::move(source)), options_(std::move(options)) {}

  Scenario& then(const Stop& stop) {
    options_.workers = stop.workers;
    test::SideBySide ranks(stop.ranks, [&](World world) { return Loader(source_, options_, world); });
    if (const auto checkpoint = checkpoints_.latest()) {
      ranks.each([&](Loader& loader) { restore(loader, *checkpoint); });
    }
    const auto count = [&](const Loader&, const Batch& batch) {
      for (std::size_t i = 0; i < batch.ids().size(); ++i) {
        ++times_[{batch.epochs()[i], batch.ids()[i].value}];
        EXPECT_EQ(batch.tensor("x").as<std::int64_t>()[2 * i], batch.ids()[i].value);
      }
    };
    for (int k = 0; k < stop.steps && ranks.step(count); ++k) ++steps_;
    ranks.front().rescale(World{});  // it alone saves
    checkpoints_.save_all(ranks.front().position().step, ranks.front());
    return *this;
  }

  void expect_every_sample_once() const {
    EXPECT_THAT(times_, SizeIs(source_->size() * options_.epochs));
    EXPECT_THAT(times_, Each(Pair(::testing::_, 1)));
  }
  [[nodiscard]] int steps() const { return steps_; }

 private:
  std::shared_ptr<const Source> source_;
  LoaderOptions options_;
  test::TemporaryDirectory directory_;
  CheckpointDirectory checkpoints_{mpi::Communicator(), directory_.path()};
  std::map<std::pair<std::int64_t, std::int64_t>, int> times_;  // by epoch and sample
  int steps_ = 0;
};

std::shared_ptr<const Source> samples(std::int64_t count) { return counting(count); }

TEST(Scenario, AHundredDocumentsIn12ShardsGoFromFourWorkersToAnyNumber) {
  for (const int workers : {1, 2, 3, 6, 12}) {
    Scenario run(samples(100), {.global_batch_size = 6, .shards = 12});
    run.then({.ranks = 1, .workers = 4, .steps = 7})
        .then({.ranks = 1, .workers = workers, .steps = kToTheEnd});
    run.expect_every_sample_once();
  }
}

TEST(Scenario, TwentyShardsGoToFiveRanksOfTwoWorkers) {
  Scenario run(samples(1003), {.global_batch_size = 32, .shards = 20, .epochs = 2});
  run.then({.ranks = 5, .workers = 2, .steps = 11}).then({.ranks = 5, .workers = 2, .steps = kToTheEnd});
  run.expect_every_sample_once();
}

TEST(Scenario, ManyShardsThatNothingDividesGoThroughManyWorlds) {
  Scenario run(samples(2000), {.global_batch_size = 21, .shards = 555});
  for (const int ranks : {2, 3, 7}) {
    for (const int workers : {0, 2, 3}) run.then({.ranks = ranks, .workers = workers, .steps = 8});
  }
  run.then({.ranks = 1, .workers = 1, .steps = kToTheEnd});
  run.expect_every_sample_once();
}

TEST(Scenario, ShardsThatAreNoMultipleOfWorkersStayWholeWhenWorkersChange) {
  for (const std::int64_t shards : {300, 555, 721}) {
    for (const int before : {1, 2, 6}) {
      for (const int after : {3, 4}) {
        Scenario run(samples(900), {.global_batch_size = 32, .shards = shards});
        run.then({.ranks = 1, .workers = before, .steps = 13});
        run.then({.ranks = 1, .workers = after, .steps = kToTheEnd});
        run.expect_every_sample_once();
      }
    }
  }
}

TEST(Scenario, PartsOfZeroAHundredAnd37SamplesEndTogether) {
  for (const auto split : {Split::by_sample, Split::by_shard, Split::interleaved}) {
    const auto source = counting(137, std::vector<std::int64_t>{0, 100, 37});
    Scenario run(source, {.global_batch_size = 8, .shards = 3, .rank_split = split, .worker_split = split});
    run.then({.ranks = 3, .workers = 2, .steps = 5}).then({.ranks = 2, .workers = 3, .steps = kToTheEnd});
    run.expect_every_sample_once();
  }
}

TEST(Scenario, EightRanksTakeSixteenStepsOfABatchThatDoesNotDivideTheSamples) {
  Scenario run(samples(1020), {.global_batch_size = 64});
  run.then({.ranks = 8, .workers = 1, .steps = kToTheEnd});
  run.expect_every_sample_once();
  EXPECT_EQ(run.steps(), 16);
}

TEST(Scenario, TwoDatasetsMixedThreeToFiveGoFromTwoRanksToFour) {
  const Mixture mixture{
      .datasets = {{.source = samples(300), .weight = 3}, {.source = samples(500), .weight = 5}},
      .end = MixtureEnd::all_exhausted};
  const LoaderOptions options{.global_batch_size = 16, .shards = 8};
  std::map<std::int64_t, int> times;
  const auto count = [&](const Loader&, const Batch& batch) {
    for (const SampleId id : batch.ids()) ++times[id.value];
  };
  const auto make = [&](World world) { return Loader(mixture, options, world); };
  test::SideBySide two(2, make);
  for (int k = 0; k < 20; ++k) two.step(count);
  test::SideBySide four(4, make);
  four.each([&](Loader& loader) { loader.seek(two.front().position()); });
  while (four.step(count)) {
  }
  EXPECT_THAT(times, SizeIs(800));
  EXPECT_THAT(times, Each(Pair(::testing::_, 1)));
}

}  // namespace rota::test::scenarios_test
