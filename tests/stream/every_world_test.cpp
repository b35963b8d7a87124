// What holds at any number of ranks, many or few: all take the same steps and see each sample once, in one
// world, and in worlds that take turns with a state between them.

#include "stream/ranks.hpp"

namespace rota::test::every_world_test {

void expect_every_item_once(std::int64_t length, std::int64_t batch_size, std::int64_t shards, Split split,
                            int workers) {
  StreamLoader loader(everyone(), dispatch_of(numbered({length}), shards, split),
                      {.global_batch_size = batch_size,
                       .epochs = 2,
                       .workers = workers,
                       .read_ahead_batches = 1 + length % 3});
  const std::int64_t steps = (length + batch_size - 1) / batch_size;
  std::int64_t step = 0;
  for (; const auto batch = loader.next(); ++step) {
    const std::int64_t first = step % steps * batch_size;
    const auto ranks = dealt(first, std::min(batch_size, length - first), shards, split, everyone().size());
    EXPECT_EQ(batch->start(), (Position{.epoch = step / steps, .consumed = 0, .step = step}));
    EXPECT_EQ(items_of(*batch, shards), ranks[static_cast<std::size_t>(everyone().rank())]);
  }
  EXPECT_EQ(step, 2 * steps) << length << " items, batches of " << batch_size;
}

TEST(EveryWorld, GetsEveryItemOfADispatchOnceInTheSameBatches) {
  int number = 0;
  for (const std::int64_t length : {0, 1, 2, 7, 40, 101}) {
    for (const std::int64_t batch : {1, 3, 8, 64}) {
      for (const std::int64_t shards : {1, 3, 16, 200}) {
        const Split split = number % 2 == 0 ? Split::by_sample : Split::by_shard;
        expect_every_item_once(length, batch, shards, split, number++ / 2 % 2);
      }
    }
  }
}

// One empty, one a hundred times the others, more than ranks and fewer; none at all.
const std::vector<Numbers> kLengths{{1, 100, 0, 1, 1, 1, 1}, {3}, {0, 5}, Numbers(14, 4), {0, 0, 0}};

void expect_every_sample_once(std::shared_ptr<const StreamSource> source, std::int64_t size) {
  StreamLoader loader(everyone(), source,
                      {.global_batch_size = size, .epochs = 2, .workers = everyone().rank() % 3});
  SeenRows mine;
  Numbers sizes;
  while (const auto batch = loader.next()) {
    add(*batch, mine);
    EXPECT_EQ(batch->start().step, std::ssize(sizes));
    sizes.push_back(batch->size());
  }
  EXPECT_THAT(ranks::all_gather(everyone(), std::ssize(sizes)), Each(std::ssize(sizes)));
  EXPECT_THAT(sizes, Each(Le((size - 1) / everyone().size() + 1)));
  everyone().max(sizes);
  EXPECT_THAT(sizes, Each(Gt(0))) << "an empty step";
  EXPECT_EQ(of_all_ranks(mine), whole(*source, 2));
}

TEST(EveryWorld, TakesTheSameStepsOfStreamsAndSeesEverySampleOnceInTheOrderOfItsShard) {
  for (const Numbers& lengths : kLengths) {
    for (const std::int64_t size : {1, 3, 8, 64}) {
      for (const bool knows : {true, false}) {
        const auto source = numbered(lengths);
        source->knows_lengths = knows;
        expect_every_sample_once(source, size);
        expect_every_sample_once(mixed(source), size);
      }
    }
  }
}

/// Worlds of the first so many ranks that take turns, from what the last one has handed on. All choices are
/// the same on every rank; rank 0 is in every world.
struct Chain {
  using Make = std::function<StreamLoader(const Communicator&, const StreamLoaderOptions&, Split)>;
  using Step = std::function<bool(StreamLoader&)>;

  std::uint64_t seed;
  Make make;  ///< what each program makes anew
  Step step;  ///< takes one, and notes what it gave; false at the end
  bool hands_on_text = false;
  std::int64_t epochs = 2;
  int most_steps = 6;
  int most_lost = 2;  ///< steps behind a save, which did not happen

  void run_to_the_end() {
    bool is_over = false;
    for (int legs = 0; legs < 400 && !is_over; ++legs) is_over = leg();
    EXPECT_TRUE(is_over);
  }

  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

  bool leg() {
    const int size = draw(1, everyone().size());
    const StreamLoaderOptions options{.global_batch_size = draw(1, 12),
                                      .epochs = epochs,
                                      .workers = draw(0, 2),
                                      .read_ahead_batches = draw(1, 4)};
    const Split split = draw(0, 1) == 0 ? Split::by_sample : Split::by_shard;
    const int steps = draw(0, most_steps);
    const int lost = draw(0, most_lost);
    std::int64_t is_over = 0;
    if (const auto comm = part_of(everyone(), [size](int rank) { return rank < size; })) {
      StreamLoader loader = make(*comm, options, split);
      is_over = run(*comm, loader, steps) ? 1 : 0;
      for (int k = 0; k < lost; ++k) static_cast<void>(loader.next());
    }
    everyone().max(std::span(&is_over, 1));
    text = ranks::broadcast(everyone(), text);
    return is_over != 0;
  }

  bool run(const Communicator& comm, StreamLoader& loader, int steps) {
    CheckpointDirectory checkpoints(comm, directory.path());
    checkpoints.restore_all(loader);
    if (!text.empty()) restore(loader, text);
    bool is_over = false;
    for (int k = 0; k < steps && !is_over; ++k) is_over = !step(loader);
    if (!hands_on_text) {
      checkpoints.save_all(loader.position().step, loader);
      return is_over;
    }
    text = state(loader);
    EXPECT_EQ(ranks::broadcast(comm, text), text) << "it is the same on all ranks";
    return is_over;
  }

  // Of the run.
  std::mt19937_64 random{seed};
  std::string text = {};
  SharedDirectory directory = {};
};

std::shared_ptr<const StreamSource> source_of(std::uint64_t seed) {
  const auto plain = numbered(kLengths[seed % (kLengths.size() - 1)]);
  plain->knows_lengths = seed % 3 != 0;
  if (seed % 4 == 0) return plain;
  if (seed % 4 == 1) return shuffle_buffer(plain, 4, seed);
  if (seed % 4 == 2) return up_to_three(shuffle_buffer(plain, 12, seed));
  return mixed(plain, 6, seed);
}

void expect_each_sample_once(std::uint64_t seed) {
  const auto make = [&](const Communicator& comm, const StreamLoaderOptions& options, Split) {
    return StreamLoader(comm, source_of(seed), options);
  };
  SeenRows mine;
  const auto step = [&](StreamLoader& loader) {
    const auto batch = loader.next();
    if (batch) add(*batch, mine);
    return batch.has_value();
  };
  Chain chain{.seed = seed, .make = make, .step = step, .hands_on_text = (seed + seed / 4) % 2 == 1};
  chain.run_to_the_end();
  EXPECT_EQ(of_all_ranks(mine), whole(*source_of(seed), 2)) << "seed " << seed;
}

/// Every second one hands on a text. Every fourth one stops behind each step.
void expect_each_item_once(std::uint64_t seed, std::int64_t length, bool is_pipe) {
  const auto gone = std::make_shared<std::int64_t>(0);
  const auto make = [&](const Communicator& comm, StreamLoaderOptions options, Split split) {
    const auto source = is_pipe ? pipe_of(length, gone) : numbered({length});
    source->blob_bytes = seed / 2 % 2 == 0 ? 0 : 500;  // a long cursor is taken seldom
    options.workers = options.workers % 2;
    return StreamLoader(comm, dispatch_of(source, 5, split), options);
  };
  ItemRows mine;
  Chain chain{.seed = seed,
              .make = make,
              .step = [&](StreamLoader& loader) { return take_step(loader, mine); },
              .hands_on_text = seed % 2 == 1,
              .epochs = is_pipe ? 1 : 2,
              .most_steps = seed % 4 == 1 ? 1 : 6,
              .most_lost = is_pipe ? 0 : 2};
  chain.run_to_the_end();
  EXPECT_EQ(delivered(mine), whole(length, chain.epochs)) << "seed " << seed;
}

// Of many ranks each takes long.
std::uint64_t chains() { return everyone().size() > 4 ? 3 : 12; }

TEST(EveryWorld, HandsStreamsOnToAnyOtherThatSeesEachSampleOnce) {
  for (std::uint64_t seed = 0; seed < chains(); ++seed) expect_each_sample_once(seed);
}

TEST(EveryWorld, HandsADispatchOnToAnyOtherThatGetsEachItemOnce) {
  for (std::uint64_t seed = 0; seed < chains(); ++seed)
    expect_each_item_once(seed, seed % 3 == 2 ? 3 : 40, false);
}

/// A rank's consumers, which settle items by hand when they please, and note those that are done with.
struct Consumers {
  std::mt19937_64 random;
  ItemRows out = {};
  ItemRows done = {};

  /// **Collective.**
  bool step(StreamLoader& loader) {
    if (take(loader)) {
      work(loader);
      if (loader.position().step % 3 == 0) loader.merge();
      return true;
    }
    while (!out.empty()) finish(loader, true);
    loader.merge();
    return take(loader);
  }
  bool take(StreamLoader& loader) {
    const auto batch = loader.next();
    if (!batch) return false;
    const Items items = items_of(*batch, loader.source().shards());
    for (std::size_t i = 0; i < items.size(); ++i) out.push_back({batch->epochs()[i], 0, items[i]});
    return true;
  }
  void work(StreamLoader& loader) {
    std::ranges::shuffle(out, random);
    for (auto count = random() % (out.size() + 1); count > 0; --count) finish(loader, random() % 4 > 0);
    if (random() % 8 > 0) return;
    loader.again();
    out.clear();
  }
  // Is done with the last one, or gives it up.
  void finish(StreamLoader& loader, bool is_done) {
    const std::array<SampleId, 1> id{{{out.back()[2]}}};
    const std::array<std::int64_t, 1> epoch{out.back()[0]};
    if (is_done) done.push_back(out.back());
    out.pop_back();
    if (!is_done) return loader.again(id, epoch);
    random() % 3 == 0 ? loader.drop(id, epoch, "stale") : loader.settle(id, epoch);
  }
};

void expect_each_item_settled_once(std::uint64_t seed, std::int64_t length, bool is_pipe) {
  const auto gone = std::make_shared<std::int64_t>(0);
  Consumers mine{.random = std::mt19937_64(seed * 100 + static_cast<std::uint64_t>(everyone().rank()))};
  const auto make = [&](const Communicator& comm, StreamLoaderOptions options, Split split) {
    mine.out.clear();
    options.workers = options.workers % 2;
    options.settle = Settle::by_hand;
    const auto source = is_pipe ? pipe_of(length, gone) : numbered({length});
    return StreamLoader(comm, dispatch_of(source, 5, split), options);
  };
  Chain chain{.seed = seed,
              .make = make,
              .step = [&](StreamLoader& loader) { return mine.step(loader); },
              .hands_on_text = seed % 2 == 1,
              .epochs = is_pipe ? 1 : 2,
              .most_lost = is_pipe ? 0 : 2};
  chain.run_to_the_end();
  EXPECT_EQ(delivered(mine.done), whole(length, chain.epochs)) << "seed " << seed;
}

TEST(EveryWorld, SettlesEachItemOfADispatchOnceByHand) {
  for (std::uint64_t seed = 0; seed < chains(); ++seed) {
    expect_each_item_settled_once(seed, 30, false);
    expect_each_item_settled_once(seed, 30, true);
  }
}

TEST(EveryWorld, LosesNothingOfAPipeWhereProgramsEndInOrder) {
  for (std::uint64_t seed = 0; seed < chains(); ++seed) expect_each_item_once(seed, 40, true);
}

TEST(EveryWorldCampaign, HandsStreamsDispatchesAndPipesOnToAnyOther) {
  for (std::uint64_t seed = chains(); seed < 20; ++seed) {
    expect_each_sample_once(seed);
    expect_each_item_once(seed, 60, false);
    expect_each_item_once(seed, 80, true);
    expect_each_item_settled_once(seed, 60, seed % 2 == 0);
  }
}

}  // namespace rota::test::every_world_test
