// Under Shuffle::block a source is told of the blocks that will be read, before they are, and of no more than
// it may bring.

#include "source/reading.hpp"
#include "source/told_source.hpp"

namespace rota::test::blocks_ahead_test {

/// A source that notes what it is told of, and what was read without.
class Noting {
 public:
  explicit Noting(std::int64_t size) : source(counting(size)) {
    source->on_will_read = [this, size](SampleId first, std::int64_t count) {
      const std::scoped_lock lock(mutex_);
      ++calls;
      if (is_failing) throw std::runtime_error("no");
      told.resize(static_cast<std::size_t>(size));
      for (std::int64_t i = 0; i < count; ++i) ++told.at(static_cast<std::size_t>(first.value + i));
      return count * sample_bytes;
    };
    source->on_read = [this](SampleId id) {
      const std::scoped_lock lock(mutex_);
      untold += told.empty() || told[static_cast<std::size_t>(id.value)] == 0;
    };
  }

  std::shared_ptr<ToldSource> source;
  std::int64_t sample_bytes = 16;
  bool is_failing = false;
  std::vector<int> told;
  std::int64_t untold = 0;
  int calls = 0;

 private:
  std::mutex mutex_;
};

LoaderOptions options_of(Shuffle shuffle = Shuffle::block) {
  LoaderOptions options{.global_batch_size = 8, .shuffle = shuffle};
  options.shards = 1;
  options.block = {.samples = 16, .blocks = 4};
  return options;
}

// Returns how many samples the loader gave.
std::int64_t drain(const std::shared_ptr<const Source>& source, const LoaderOptions& options,
                   World world = {}) {
  Loader loader(source, options, world);
  return samples_left(loader);
}

TEST(BlocksAhead, ASourceIsToldOfEachBlockOnceBeforeItIsRead) {
  for (const std::int64_t size : {1, 15, 64, 65, 1000, 4097}) {
    for (const int workers : {0, 1, 3}) {
      Noting noting(size);
      LoaderOptions options = options_of();
      options.workers = workers;
      EXPECT_EQ(drain(noting.source, options), size);
      EXPECT_EQ(noting.untold, 0) << size << " samples, " << workers << " workers";
      EXPECT_THAT(noting.told, testing::Each(1)) << size << " samples, " << workers << " workers";
    }
  }
}

TEST(BlocksAhead, ManyShardsAreToldOf) {
  for (const std::int64_t shards : {2, 5, 16}) {
    Noting noting(3000);
    LoaderOptions options = options_of();
    options.shards = shards;
    options.interleave = 2;
    options.epochs = 2;
    options.tail = Tail::carry;
    EXPECT_EQ(drain(noting.source, options), 6000);
    EXPECT_LE(noting.untold, 7) << shards;  // of an epoch that begins in the batch of another
  }
}

TEST(BlocksAhead, GoesOnWhereALoaderIsSought) {
  Noting noting(1000);
  Loader loader(noting.source, options_of(), World{});
  loader.seek({.epoch = 0, .consumed = 640, .step = 80});
  while (loader.next()) {
  }
  EXPECT_EQ(noting.untold, 0);
  EXPECT_LT(std::ranges::count_if(noting.told, [](int times) { return times > 0; }), 500);
}

TEST(BlocksAhead, OthersAreNotToldOf) {
  for (const Shuffle shuffle : {Shuffle::none, Shuffle::within, Shuffle::global}) {
    Noting noting(100);
    EXPECT_EQ(drain(noting.source, options_of(shuffle)), 100);
    EXPECT_EQ(noting.calls, 0);
  }
}

TEST(BlocksAhead, ARankThatReadsLittleOfABlockHasNoneBrought) {
  for (const auto& [ranks, is_told] : {std::pair{2, true}, {4, true}, {5, false}, {64, false}}) {
    Noting noting(1000);
    drain(noting.source, options_of(), {.rank = 0, .size = ranks});
    EXPECT_EQ(noting.calls > 0, is_told) << ranks;
  }
}

TEST(BlocksAhead, NoMoreThanMayBeReadAheadIsBrought) {
  // Two windows of 64 samples.
  for (const auto& [sample_bytes, is_told] :
       {std::pair<std::int64_t, bool>{1 << 10, true}, {(1 << 10) + 1, false}, {0, false}}) {
    Noting noting(1000);
    noting.sample_bytes = sample_bytes;
    LoaderOptions options = options_of();
    options.read_ahead_bytes = 128 << 10;
    EXPECT_EQ(drain(noting.source, options), 1000);
    EXPECT_EQ(noting.calls > 1, is_told) << sample_bytes;
  }
}

TEST(BlocksAhead, WhatASourceThrowsThereIsDropped) {
  Noting noting(100);
  noting.is_failing = true;
  EXPECT_EQ(drain(noting.source, options_of()), 100);
  EXPECT_EQ(noting.calls, 1);
}

}  // namespace rota::test::blocks_ahead_test
