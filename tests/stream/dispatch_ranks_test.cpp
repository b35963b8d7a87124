// One rank reads, and all get what is theirs: errors on all ranks at the same step, and no more read ahead
// than is allowed. every_world_test.cpp has what they get.

#include "loader/batch_memory.hpp"
#include "ranks/deferred_reduction.hpp"
#include "stream/dispatch_feed.hpp"
#include "stream/ranks.hpp"
#include "thread_ranks.hpp"

namespace rota::test::dispatch_ranks_test {

TEST(Dispatch, OfNothingEndsAnEndlessRun) {
  StreamLoader loader(everyone(), dispatch_of(numbered({0})), {.epochs = kEndless});
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(Dispatch, TellsAllRanksWhatTheSourceIs) {
  StreamLoader loader(everyone(), dispatch_of(numbered({3}), 7, Split::by_shard));
  EXPECT_EQ(loader.source().shards(), 7);
  EXPECT_EQ(loader.source().fields()[1].name, "text");
  EXPECT_THROW(static_cast<void>(loader.source().open({0}, 0, {})), Error);
  EXPECT_NE(StreamLoader(everyone(), dispatch_of(numbered({3}), 8)).fingerprint(), loader.fingerprint());
}

void expect_refused(const Dispatch& dispatch, ErrorCode code, const std::string& why) {
  EXPECT_ERROR(StreamLoader(everyone(), dispatch), code, {why});
}

TEST(Dispatch, IsRefusedOnAllRanks) {
  constexpr auto kInvalid = invalid_argument;
  expect_refused(dispatch_of(nullptr), kInvalid, "the source is null on rank 0");
  expect_refused(dispatch_of(numbered({1, 2})), kInvalid, "it has 2 shards, and what is read once has 1");
  expect_refused(dispatch_of(numbered({1}), 0), kInvalid, "shards is 0");
  expect_refused(dispatch_of(numbered({1}), 3, Split::interleaved), kInvalid,
                 "must be one of by_sample, by_shard");
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  expect_refused(dispatch_of(numbered({1}), is_root() ? 3 : 4), mismatch, "rank 0 has 3 shards");
  expect_refused(dispatch_of(numbered({1}), 3, is_root() ? Split::by_shard : Split::by_sample), mismatch,
                 "split by_shard; this rank has");
}

TEST(Dispatch, OnOneRankAndASourceOnOthersIsRefusedOnAll) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const int dispatching : {0, everyone().size() - 1}) {
    const auto make = [&] {
      if (everyone().rank() != dispatching) return StreamLoader(everyone(), numbered({3}));
      return StreamLoader(everyone(), Dispatch{.source = numbered({3})});
    };
    EXPECT_THAT(error_of(make),
                is_error(mismatch, {"a Dispatch, which rank 0 alone reads", "a source that all ranks read"}));
  }
}

// ---- errors ----

// Steps until the loader throws; what it says.
std::string steps_to_error(StreamLoader& loader, ItemRows& mine) {
  try {
    while (take_step(loader, mine)) continue;
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Steps of four items each.
ItemRows fours(std::int64_t items) {
  ItemRows rows;
  for (std::int64_t i = 0; i < items; ++i) rows.push_back({0, i / 4, i});
  return rows;
}

TEST(Dispatch, AnErrorOfTheSourceReachesAllRanksAtTheSameStepAndIsTriedAgain) {
  for (const std::int64_t at : {0, 5, 8, 23}) {
    for (const int workers : {0, 1}) {
      std::atomic<bool> is_broken = true;
      const auto source = numbered({30});
      source->on_read = [&](StreamId id) {
        if (is_broken && id.input == at) throw Error(io, "the line is dead");
      };
      StreamLoader loader(everyone(), dispatch_of(source), {.global_batch_size = 4, .workers = workers});
      ItemRows mine;
      for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_THAT(
            steps_to_error(loader, mine),
            HasSubstr(fmt::format("read shard 0 (file-0), epoch 0, behind its {} samples so far", at)));
        EXPECT_EQ(loader.position().step, at / 4);
      }
      for (int chance = 0; chance < 100; ++chance) std::this_thread::yield();  // to try too early
      is_broken = false;
      EXPECT_EQ(steps_to_error(loader, mine), "nothing was thrown");
      EXPECT_EQ(of_all_ranks(mine), fours(30));
    }
  }
}

// Memory that is not there, on one rank.
TEST(Dispatch, AnErrorOfAnotherRankReachesAllAndNothingIsLost) {
  std::atomic<bool> is_broken = false;
  Allocator allocator{
      .allocate = [&](std::size_t bytes) -> void* {
        if (is_broken) throw std::bad_alloc();
        return ::operator new (bytes, std::align_val_t{64});
      },
      .release = [](void* memory, std::size_t) { ::operator delete (memory, std::align_val_t{64}); }};
  StreamLoader loader(everyone(), dispatch_of(numbered({40})),
                      {.global_batch_size = 4, .allocator = allocator});
  ItemRows mine;
  is_broken = is_last();
  EXPECT_THAT(steps_to_error(loader, mine), HasSubstr("there is not enough memory"));
  is_broken = false;
  EXPECT_EQ(steps_to_error(loader, mine), "nothing was thrown");
  EXPECT_EQ(of_all_ranks(mine), fours(40));
}

// ---- bounds ----

/// A dispatch of `length` items of which all that is read is counted, on rank 0.
class CountedDispatch : public Test {
 protected:
  StreamLoader make(std::int64_t length, const StreamLoaderOptions& options) {
    read_ = 0;
    const auto source = numbered({length});
    source->on_read = [this](StreamId) { ++read_; };
    return {everyone(), dispatch_of(source), options};
  }
  // Time to read more than is allowed.
  static void give_chances() {
    for (int chance = 0; chance < 100; ++chance) std::this_thread::yield();
  }

  std::atomic<std::int64_t> read_ = 0;
};

TEST_F(CountedDispatch, ReadsAsFarAheadAsTheBoundOfBatchesAndNoFurther) {
  for (const std::int64_t ahead : {1, 2, 5}) {
    StreamLoader loader = make(200, {.global_batch_size = 6, .read_ahead_batches = ahead});
    std::int64_t delivered = 0;
    while (loader.next()) {
      delivered = std::min<std::int64_t>(delivered + 6, 200);
      const std::int64_t bound = std::min<std::int64_t>(delivered + ahead * 6, 200);
      if (!is_root()) continue;
      while (read_ < bound) std::this_thread::yield();
      give_chances();
      EXPECT_EQ(read_, bound);
    }
    EXPECT_EQ(delivered, 200);
  }
}

// Items of 16 to 20 bytes and 8 for a length.
TEST_F(CountedDispatch, ReadsNoFurtherAheadThanTheBoundOfBytesButForTheNextBatch) {
  StreamLoader loader =
      make(200, {.global_batch_size = 10, .read_ahead_batches = 100, .read_ahead_bytes = 400});
  std::int64_t delivered = 0;
  while (loader.next()) {
    delivered = std::min<std::int64_t>(delivered + 10, 200);
    give_chances();
    EXPECT_LE(read_, delivered + std::max(10, 400 / 24 + 1));
  }
  EXPECT_EQ(delivered, 200);
}

TEST_F(CountedDispatch, WithoutWorkersReadsNoMoreThanTheStepAsksFor) {
  StreamLoader loader = make(20, {.global_batch_size = 8, .workers = 0});
  for (const std::int64_t expected : {8, 16, 20}) {
    EXPECT_TRUE(loader.next());
    EXPECT_EQ(read_, is_root() ? expected : 0);
  }
}

TEST_F(CountedDispatch, StopsReadingAtASaveUntilTheNextStep) {
  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  StreamLoader loader = make(100, {.global_batch_size = 4, .read_ahead_batches = 8});
  EXPECT_TRUE(loader.next());
  checkpoints.save_all(1, loader);
  const auto pending = checkpoints.latest()->tensor("loader/main/pending").rows();
  EXPECT_EQ(read_, is_root() ? 4 + pending : 0) << "all that was read is delivered or saved";
  EXPECT_TRUE(loader.next());
}

// ---- a rank that goes ----

// One rank has left the channel, and all still come to where steps are agreed.
class LeftDispatch : public Test {
 protected:
  void SetUp() override {
    if (!are_three_threads()) GTEST_SKIP() << "a process would have to end: on three threads";
  }
  void make_without(int gone) {
    Communicator channel = everyone().duplicate();
    if (everyone().rank() == gone) leave(channel);
    meet();
    feed_.emplace(dispatch_of(numbered({100})), *pool_, options_, settling_, agreement_, std::move(channel));
  }
  static void meet() { ranks::agree(everyone(), "meet", nullptr); }
  static void expect_told(int gone, const std::function<void()>& wait) {
    EXPECT_THAT(error_of(wait),
                is_error(timeout, {fmt::format("agree on a step: rank {} cannot be reached", gone)}));
  }
  void wait_for_nothing() {
    agreement_.await([] { return false; });
  }

  StreamLoaderOptions options_{.global_batch_size = 3};
  Settling settling_{Settle::at_delivery, 1};
  std::shared_ptr<BatchPool> pool_ =
      std::make_shared<BatchPool>(numbered({1})->fields(), Allocator{}, 4, 1 << 20);
  ranks::DeferredReduction agreement_{everyone(), ranks::Reduction::minimum, 2s, "agree on a step"};
  std::optional<DispatchFeed> feed_;
};

TEST_F(LeftDispatch, TellsWhereTheOthersWait) {
  make_without(0);
  if (everyone().rank() == 1) expect_told(0, [&] { (void)feed_->wait(); });
  if (everyone().rank() == 2) expect_told(0, [&] { wait_for_nothing(); });
  meet();
}

TEST_F(LeftDispatch, TellsFromTheRankThatReads) {
  make_without(2);
  const auto deliver = [&] {
    (void)feed_->wait();
    (void)feed_->take();
  };
  if (is_root()) expect_told(2, [&] { deliver(), deliver(); });
  if (everyone().rank() == 1) expect_told(2, [&] { wait_for_nothing(); });
  meet();
}

TEST_F(LeftDispatch, LooksAheadWithoutAWordAndAStepThatAllHadComeToIsGood) {
  make_without(0);
  agreement_.begin({1});
  if (everyone().rank() == 1) EXPECT_FALSE(feed_->peek());
  meet();
  EXPECT_EQ(agreement_.end(), Numbers{1});
  meet();
}

// ---- ends ----

// What is on its way then is seen by MPI_Finalize, at the end of this program.
TEST(Dispatch, IsLeftInTheMidstOfAnEpochWithoutWaiting) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1} << 10, std::int64_t{1} << 20}) {
    const auto make = [](std::int64_t, const StreamSample& sample, StreamOutputs& outputs) {
      std::ranges::fill(outputs.add().bytes(0), static_cast<std::byte>(sample.id().input));
    };
    const std::vector<Field> fields{{.name = "fixed", .dtype = DType::uint8, .shape = {bytes}},
                                    {.name = "none", .dtype = DType::uint8, .shape = {0}},
                                    {.name = "ragged", .dtype = DType::uint8, .ragged = true}};
    for (int steps = 0; steps < 3; ++steps) {
      StreamLoader loader(everyone(), dispatch_of(flat_map(numbered({1'000'000}), make, {.fields = fields})),
                          {.global_batch_size = everyone().size()});
      for (int k = 0; k < steps; ++k) {
        const auto batch = loader.next();
        EXPECT_EQ(batch->size(), 1);
        const StreamId id = batch->stream_ids()[0];
        EXPECT_THAT(batch->bytes(0, 0), Each(std::byte(16 * id.input + id.shard.value)));
        EXPECT_EQ(batch->bytes(2, 0).size(), 0U);
      }
    }
  }
}

}  // namespace rota::test::dispatch_ranks_test
