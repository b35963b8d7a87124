// Loader::when is held against what the loaders of all ranks hand out.

#include "loader/side_by_side.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::when_test {

using Turns = std::map<std::pair<std::int64_t, std::int64_t>, BatchSlot>;  // by epoch and id

std::int64_t draw(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

std::shared_ptr<const Source> random_source(std::mt19937_64& random, std::int64_t shards) {
  if (draw(random, 0, 1) == 0) return counting(draw(random, 1, 60));
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(shards));
  for (auto& length : lengths) length = draw(random, 0, 7);
  lengths.front() += 1;
  const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  return counting(sum, lengths);
}

LoaderOptions random_options(std::mt19937_64& random) {
  const std::int64_t shards = draw(random, 1, 12);
  return {.global_batch_size = draw(random, 1, 40),
          .shards = shards,
          .interleave = draw(random, 0, shards),
          .shuffle = static_cast<Shuffle>(draw(random, 0, 3)),
          .seed = random(),
          .block = {.samples = 4, .blocks = 3},
          .tail = static_cast<Tail>(draw(random, 0, 3)),
          .rank_split = static_cast<Split>(draw(random, 0, 2)),
          .epochs = draw(random, 1, 3),
          .workers = 0};
}

/// A world that notes who reads what.
class Watched {
 public:
  Watched(int size, const test::SideBySide::Make& make) : ranks_(size, make) {}

  bool step() {
    return ranks_.step([&](const Loader& loader, const Batch& batch) {
      for (std::size_t i = 0; i < batch.ids().size(); ++i) {
        if (batch.kinds()[i] != SlotKind::sample) continue;
        const BatchSlot slot{batch.start().step, loader.world().rank, batch.slots()[i]};
        EXPECT_TRUE(seen_.emplace(std::pair(batch.epochs()[i], batch.ids()[i].value), slot).second);
      }
    });
  }
  void run() {
    while (step()) {
    }
  }
  Loader& front() { return ranks_.front(); }
  template <typename Work>
  void each(Work work) {
    ranks_.each(work);
  }
  Turns& seen() { return seen_; }

 private:
  test::SideBySide ranks_;
  Turns seen_;
};

/// What `loader` answers for all samples of epochs [0, epochs).
Turns told(const Loader& loader, std::int64_t epochs) {
  Turns all;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t id = 0; id < loader.source().size(); ++id) {
      if (const auto slot = loader.when({id}, epoch)) all.emplace(std::pair(epoch, id), *slot);
    }
  }
  return all;
}

TEST(When, NamesStepRankAndSlotOfEverySampleFromWhereverTheRunIs) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const LoaderOptions options = random_options(random);
    const auto source = random_source(random, options.shards);
    const auto make = [&](World world) { return Loader(source, options, world); };
    Watched ranks(static_cast<int>(draw(random, 1, 6)), make);
    const Turns from_the_start = told(ranks.front(), options.epochs + 1);
    for (std::int64_t steps = draw(random, 0, 8); steps > 0 && ranks.step(); --steps) {
    }
    const Turns on_the_way = told(ranks.front(), options.epochs + 1);
    ranks.run();
    ASSERT_EQ(from_the_start, ranks.seen());
    ASSERT_EQ(on_the_way, ranks.seen());
    ASSERT_EQ(told(ranks.front(), options.epochs + 1), ranks.seen());
  }
}

/// What `loader` answers about samples that were not read, of this epoch and later ones. (What was dropped at
/// an earlier one's end cannot be known once the batch size has changed.)
Turns told_ahead(const Loader& loader, std::int64_t epochs, const Turns& seen) {
  Turns all;
  for (std::int64_t epoch = loader.position().epoch; epoch < epochs; ++epoch) {
    for (std::int64_t id = 0; id < loader.source().size(); ++id) {
      if (seen.contains({epoch, id})) continue;
      if (const auto slot = loader.when({id}, epoch)) all.emplace(std::pair(epoch, id), *slot);
    }
  }
  return all;
}

TEST(When, KnowsWhatLiesAheadWhateverTheBatchesAndWorldsWereBefore) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const LoaderOptions options = random_options(random);
    const auto source = random_source(random, options.shards);
    Position at;
    Turns seen;
    for (int leg = 0; leg < 3; ++leg) {
      Watched ranks(static_cast<int>(draw(random, 1, 6)),
                    [&](World world) { return Loader(source, options, world); });
      const std::int64_t size = draw(random, 1, 40);
      ranks.each([&](Loader& loader) {
        loader.seek(at);
        loader.set_global_batch_size(size);
      });
      const Turns ahead = told_ahead(ranks.front(), options.epochs + 1, seen);
      for (std::int64_t steps = leg == 2 ? 10'000 : draw(random, 0, 5); steps > 0 && ranks.step(); --steps) {
      }
      for (const auto& [sample, slot] : ranks.seen()) ASSERT_EQ(ahead.at(sample), slot);
      if (leg == 2) {
        ASSERT_EQ(ahead, ranks.seen());
      }
      at = ranks.front().position();
      seen.merge(ranks.seen());
    }
  }
}

TEST(When, CountsAMixturesSamplesInTheirOwnEpochs) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    LoaderOptions options = random_options(random);
    Mixture mixture{.end = static_cast<MixtureEnd>(draw(random, 0, 2))};
    if (mixture.end == MixtureEnd::steps) mixture.steps = draw(random, 1, 20);
    for (const double weight : {0.5, 0.3, 0.2})
      mixture.datasets.push_back({random_source(random, options.shards), weight});
    Watched ranks(static_cast<int>(draw(random, 1, 4)),
                  [&](World world) { return Loader(mixture, options, world); });
    for (std::int64_t steps = draw(random, 0, 4); steps > 0 && ranks.step(); --steps) {
    }
    const Turns on_the_way = told(ranks.front(), 40);
    ranks.run();
    std::erase_if(ranks.seen(), [](const auto& seen) { return seen.first.first >= 40; });
    ASSERT_EQ(on_the_way, ranks.seen());
  }
}

template <typename Work>
std::string refusal(ErrorCode code, Work work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "nothing was thrown";
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
    EXPECT_THAT(
        refusal(ErrorCode::out_of_range, [&, id = id, epoch = epoch] { (void)loader.when({id}, epoch); }),
        ::testing::HasSubstr("samples 0 to 9"));
  }
  loader.next();
  EXPECT_EQ(loader.when({0}, 0), (BatchSlot{.step = 0, .rank = 0, .slot = 0}));
  loader.set_global_batch_size(3);
  EXPECT_THAT(refusal(ErrorCode::unsupported, [&] { (void)loader.when({0}, 0); }),
              ::testing::HasSubstr("batches of 3 do not lead"));
}

TEST(When, RefusesThePastOfAMixtureWhoseWeightsHaveChanged) {
  const auto source = counting(50);
  Loader loader({.datasets = {{source, 0.5}, {source, 0.5}}},
                {.global_batch_size = 4, .shuffle = Shuffle::none});
  const auto first = loader.next();
  const SampleId id = first->ids()[0];
  EXPECT_TRUE(loader.when(id, 0).has_value());
  loader.set_weights(std::vector<double>{0.25, 0.75});
  EXPECT_THAT(refusal(ErrorCode::unsupported, [&] { (void)loader.when(id, 0); }),
              ::testing::HasSubstr("these weights, set at sample 4"));
}

}  // namespace rota::test::when_test
