// Loader::when is held against what the loaders of all ranks hand out.

#include "loader/course.hpp"

namespace rota::test::when_test {

constexpr std::int64_t kToTheEnd = 1 << 30;

using Places = std::map<std::pair<std::int64_t, std::int64_t>, BatchSlot>;  // by epoch and id

/// Of few samples, so that all may be asked for.
Course small(std::mt19937_64& random) {
  Course course{.options = random_options(random)};
  course.options.shards = draw(random, 1, 12);
  course.source = random_counting(random, course.options.shards, 60);
  return course;
}

/// A world that notes who reads what.
struct Watched {
  Watched(const Course& course, int size) : ranks(size, [&](World world) { return course.make(world); }) {}

  bool step() {
    return ranks.step([&](const Loader& loader, const Batch& batch) {
      for (std::size_t i = 0; i < batch.ids().size(); ++i) {
        if (batch.kinds()[i] != SlotKind::sample) continue;
        const BatchSlot slot{batch.start().step, loader.world().rank, batch.slots()[i]};
        EXPECT_TRUE(seen.emplace(std::pair(batch.epochs()[i], batch.ids()[i].value), slot).second);
      }
    });
  }
  void steps(std::int64_t most) {
    while (most-- > 0 && step()) continue;
  }

  SideBySide ranks;
  Places seen;
};

/// What `loader` answers for all samples of epochs [first, epochs) but those that are known.
Places told(const Loader& loader, std::int64_t epochs, std::int64_t first = 0, const Places& known = {}) {
  Places all;
  for (std::int64_t epoch = first; epoch < epochs; ++epoch) {
    for (std::int64_t id = 0; id < loader.source().size(); ++id) {
      if (known.contains({epoch, id})) continue;
      if (const auto slot = loader.when({id}, epoch)) all.emplace(std::pair(epoch, id), *slot);
    }
  }
  return all;
}

TEST(When, NamesStepRankAndSlotOfEverySampleFromWhereverTheRunIs) {
  for_seeds(500, [&](std::uint64_t, std::mt19937_64& random) {
    const Course course = small(random);
    const std::int64_t epochs = course.options.epochs + 1;
    Watched world(course, static_cast<int>(draw(random, 1, 6)));
    const Places from_the_start = told(world.ranks.front(), epochs);
    world.steps(draw(random, 0, 8));
    const Places on_the_way = told(world.ranks.front(), epochs);
    world.steps(kToTheEnd);
    ASSERT_EQ(from_the_start, world.seen);
    ASSERT_EQ(on_the_way, world.seen);
    ASSERT_EQ(told(world.ranks.front(), epochs), world.seen);
  });
}

TEST(When, KnowsWhatLiesAheadWhateverTheBatchesAndWorldsWereBefore) {
  for_seeds(400, [&](std::uint64_t, std::mt19937_64& random) {
    const Course course = small(random);
    Position at;
    Places seen;
    for (int leg = 0; leg < 3; ++leg) {
      Watched world(course, static_cast<int>(draw(random, 1, 6)));
      const std::int64_t size = draw(random, 1, 40);
      world.ranks.each([&](Loader& loader) {
        loader.seek(at);
        loader.set_global_batch_size(size);
      });
      // What was dropped at an earlier epoch's end cannot be known once the batch size has changed.
      const Places ahead = told(world.ranks.front(), course.options.epochs + 1, at.epoch, seen);
      world.steps(leg == 2 ? kToTheEnd : draw(random, 0, 5));
      for (const auto& [sample, slot] : world.seen) ASSERT_EQ(ahead.at(sample), slot);
      if (leg == 2) {
        ASSERT_EQ(ahead, world.seen);
      }
      at = world.ranks.front().position();
      seen.merge(world.seen);
    }
  });
}

TEST(When, CountsAMixturesSamplesInTheirOwnEpochs) {
  for_seeds(100, [&](std::uint64_t, std::mt19937_64& random) {
    Course course{.options = small(random).options};
    course.mixture.end = static_cast<MixtureEnd>(draw(random, 0, 2));
    if (course.mixture.end == MixtureEnd::steps) course.mixture.steps = draw(random, 1, 20);
    for (const double weight : {0.5, 0.3, 0.2}) {
      course.mixture.datasets.push_back({random_counting(random, course.options.shards, 60), weight});
    }
    Watched world(course, static_cast<int>(draw(random, 1, 4)));
    world.steps(draw(random, 0, 4));
    const Places on_the_way = told(world.ranks.front(), 40);
    world.steps(kToTheEnd);
    std::erase_if(world.seen, [](const auto& seen) { return seen.first.first >= 40; });
    ASSERT_EQ(on_the_way, world.seen);
  });
}

TEST(When, HasNoAnswerForWhatIsNeverRead) {
  const auto source = counting(10);
  Loader loader(
      source,
      {.global_batch_size = 4, .shards = 1, .shuffle = Shuffle::none, .tail = Tail::drop, .epochs = 2});
  EXPECT_EQ(loader.when({7}, 1), (BatchSlot{.step = 3, .rank = 0, .slot = 3}));
  EXPECT_EQ(loader.when({8}, 1), std::nullopt);
  EXPECT_EQ(loader.when({0}, 2), std::nullopt);
  Loader endless(source, {.global_batch_size = 1, .shards = 1, .epochs = kEndless, .workers = 0});
  EXPECT_EQ(endless.when({0}, kEndless - 1), std::nullopt);
  EXPECT_EQ(endless.when({0}, kEndless / 11), std::nullopt);
  EXPECT_TRUE(endless.when({0}, (std::int64_t{1} << 62) / 11).has_value());
}

TEST(When, RefusesSamplesThereAreNotAndAPastThatCannotBeKnown) {
  Loader loader(counting(10), {.global_batch_size = 4, .shuffle = Shuffle::none});
  for (const auto& [id, epoch] : {std::pair{-1, 0}, {10, 0}, {0, -1}}) {
    const SampleId sample{id};
    const std::int64_t at = epoch;
    EXPECT_ERROR(loader.when(sample, at), out_of_range, {"samples 0 to 9"});
  }
  (void)loader.next();
  EXPECT_EQ(loader.when({0}, 0), (BatchSlot{.step = 0, .rank = 0, .slot = 0}));
  loader.set_global_batch_size(3);
  EXPECT_EQ(loader.when({0}, 0), (BatchSlot{.step = 0, .rank = 0, .slot = 0}));
  loader.seek({.consumed = 5, .step = 1});  // to which no batches of its own lead
  EXPECT_ERROR(loader.when({0}, 0), unsupported, {"from which on batches are of 3"});
}

TEST(When, KnowsThePastOfAMixtureWhoseWeightsHaveChangedUpTo64Times) {
  const auto source = counting(500);
  Loader loader({.datasets = {{source, 0.5}, {source, 0.5}}},
                {.global_batch_size = 4, .shuffle = Shuffle::none});
  const auto first = loader.next();
  const SampleId id = first->ids()[0];
  EXPECT_TRUE(loader.when(id, 0).has_value());
  for (int times = 0; times < 64; ++times) {
    loader.set_weights(std::vector<double>{1, times % 2 + 2.0});
    EXPECT_EQ(loader.when(id, 0)->step, 0);
    EXPECT_TRUE(loader.next());
  }
  loader.set_weights(std::vector<double>{1, 1});
  EXPECT_ERROR(loader.when(id, 0), unsupported, {"weights as they were set at sample 4"});
}

}  // namespace rota::test::when_test
