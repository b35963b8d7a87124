// Streams through the real thing: what ranks do that have nothing left, that fail, and that do not come.
// every_world_test.cpp has what they read.

#include "core/wait.hpp"
#include "stream/ranks.hpp"

namespace rota::test::stream_ranks_test {

TEST(StreamRanks, WithNothingLeftGetEmptyBatchesUntilTheLongestShardEnds) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  StreamLoader loader(everyone(), numbered({1, 100, 0, 1}), {.global_batch_size = 4 * everyone().size()});
  Numbers have_some;
  while (const auto batch = loader.next()) have_some.push_back(batch->size() > 0 ? 1 : 0);
  ASSERT_EQ(have_some.size(), 25U);
  everyone().sum(have_some);
  EXPECT_THAT(std::span(have_some).subspan(1), Each(1));
}

TEST(StreamRanks, AllThrowWhatAStreamOfOneOfThemThrowsInItsPlaceAndTryAgain) {
  for (const int workers : {0, 1, 2}) {
    const auto source = numbered(Numbers(6, 6));
    std::atomic<bool> is_broken = true;
    source->on_read = [&](StreamId id) {
      if (is_broken && id == StreamId{{0}, 4, 0}) throw Error(io, "the disk is gone");
    };
    StreamLoader loader(everyone(), source, {.global_batch_size = 2 * everyone().size(), .workers = workers});
    SeenRows mine;
    std::int64_t steps = 0;
    const auto read_on = [&] {
      for (; const auto batch = loader.next(); ++steps) add(*batch, mine);
    };
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto error = error_of(read_on);
      ASSERT_THAT(error, is_error(io, {"read shard 0 (file-0), epoch 0, behind its 4 samples"}));
      EXPECT_EQ(std::string(error->what()).starts_with("rank 0: "), everyone().size() > 1);
      EXPECT_EQ(loader.position().step, steps);
    }
    EXPECT_GT(steps, 0);
    is_broken = false;
    read_on();
    EXPECT_EQ(of_all_ranks(mine), whole(*source, 1));
  }
}

TEST(StreamRanks, AllThrowWhatOneOfThemThrowsWhenTheStateIsGathered) {
  const auto source = numbered(Numbers(20, 20));
  StreamLoader loader(everyone(), source, {.global_batch_size = 40});
  EXPECT_TRUE(loader.next());
  source->on_remaining = [] {
    if (is_last()) throw Error(io, "no answer");
  };
  EXPECT_THROW(static_cast<void>(state(loader)), Error);
  source->on_remaining = {};
  const std::string text = state(loader);
  EXPECT_EQ(ranks::broadcast(everyone(), text), text);
}

TEST(StreamRanks, ThatHaveDifferentSourcesAreToldSo) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const bool is_odd = everyone().rank() == 1;
  EXPECT_ERROR(StreamLoader(everyone(), numbered({1, 2, 3, is_odd}), {.epochs = is_odd ? 2 : 1}), mismatch,
               {"rank 1: make stream loaders: rank 0 has 4 shards"});
}

TEST(StreamRanks, HaveTenMinutesByDefault) {
  EXPECT_EQ(StreamLoaderOptions{}.deadline, std::chrono::minutes(10));
}

TEST(StreamRanks, LeaveALoaderInTheMidstOfAnEpochWithoutWaiting) {
  for (int steps = 0; steps < 4; ++steps) {
    StreamLoader loader(everyone(), numbered({30, 20, 10, 40}), {.global_batch_size = 8});
    for (int k = 0; k < steps; ++k) EXPECT_TRUE(loader.next());
  }
}

TEST(StreamRanks, ShareOutWhatRemains) {
  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  const auto source = numbered({3, 3, 40, 50});
  {
    StreamLoader loader(everyone(), source, {.global_batch_size = 16 * everyone().size()});
    EXPECT_TRUE(loader.next());
    checkpoints.save_all(1, loader);
  }
  const auto checkpoint = checkpoints.latest();
  StreamLoader here(everyone(), source);
  restore(here, *checkpoint);
  const Batch batch = here.next().value();
  const auto ids = batch.stream_ids();
  if (everyone().size() == 2) {  // the owners of before
    EXPECT_EQ(std::ranges::count(ids, ShardId{2}, &StreamId::shard) > 0, everyone().rank() == 1);
    EXPECT_EQ(std::ranges::count(ids, ShardId{3}, &StreamId::shard) > 0, everyone().rank() == 0);
  }
}

TEST(StreamRanks, WithoutACommunicatorAreAnErrorUnlessTheProcessIsAlone) {
  if (are_threads()) GTEST_SKIP() << "their process is alone";
  const Dispatch dispatch{.source = numbered({10}), .shards = 2};
  const std::function<StreamLoader()> of_streams = [] { return StreamLoader(numbered({10})); };
  for (const auto& make : {of_streams, std::function([&] { return StreamLoader(dispatch); })}) {
    const auto error = error_of(make);
    EXPECT_EQ(error.has_value(), everyone().size() > 1);
    if (!error) continue;
    EXPECT_THAT(error, is_error(invalid_argument, {"pass that of the ranks that share the data",
                                                   "a default-made Communicator if every rank is to read"}));
  }
}

TEST(StreamRanks, ReadEverythingEachWithADefaultMadeCommunicator) {
  const Communicator alone;
  StreamLoader streams(alone, numbered({5, 5}));
  StreamLoader dispatched(alone, Dispatch{.source = numbered({10}), .shards = 2});
  for (StreamLoader* loader : {&streams, &dispatched}) {
    EXPECT_EQ(loader->world().size, 1);
    EXPECT_EQ((*loader->next()).size(), 10);
  }
}

// ---- ranks that do not come ----

class MissingRank : public Test {
 protected:
  using Make = std::function<StreamLoader()>;
  using Use = std::function<void(StreamLoader&)>;

  void SetUp() override {
    if (everyone().size() != 3) GTEST_SKIP() << "takes seconds: of three ranks";
  }

  /// All but `missing` give it up after a step of all, and name it whenever they are asked; and it is told
  /// when it comes after all.
  static void expect_named(int missing, const Make& make, const Use& use) {
    StreamLoader loader = make();
    EXPECT_TRUE(loader.next());
    const auto expect_timeout = [&] {
      EXPECT_ERROR(use(loader), timeout, {fmt::format("rank {} did not arrive", missing)});
    };
    wait_without(missing, [&] {
      for (int attempt = 0; attempt < 2; ++attempt) expect_timeout();
    });
    if (everyone().rank() == missing) expect_timeout();
  }

  static StreamLoader of_streams() {
    return {everyone(), numbered(Numbers(20, 20)), {.deadline = kDeadline}};
  }
  static StreamLoader of_a_dispatch() {
    return {everyone(), dispatch_of(numbered({1000})), {.global_batch_size = 4, .deadline = kDeadline}};
  }
  static void read_on(StreamLoader& loader) {
    while (loader.next()) continue;
  }
  static void gather_state(StreamLoader& loader) { static_cast<void>(state(loader)); }

  const int last_ = everyone().size() - 1;
};

TEST_F(MissingRank, IsNamedByAStepOfStreamsAndToldWhenItComesAfterAll) {
  for (const int missing : {0, last_}) expect_named(missing, of_streams, read_on);
}

TEST_F(MissingRank, IsNamedWhereTheStateIsGathered) { expect_named(last_, of_streams, gather_state); }

// A receiver waits for items, not in an operation of all ranks.
TEST_F(MissingRank, IsNamedByAStepOfADispatchAlsoIfItIsTheRoot) {
  for (const int missing : {0, last_}) expect_named(missing, of_a_dispatch, read_on);
}

}  // namespace rota::test::stream_ranks_test
