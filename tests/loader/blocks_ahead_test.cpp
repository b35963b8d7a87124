// Under Shuffle::block a source is told of the blocks that will be read, before they are, and of no more than
// it may bring.

#include "loader/counting_source.hpp"
#include "test.hpp"

namespace rota::test::blocks_ahead_test {

/// Notes what it is told of, and what was read without.
class ToldSource final : public CountingSource {
 public:
  using CountingSource::CountingSource;

  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    const std::scoped_lock lock(mutex_);
    ++calls;
    if (is_failing) throw std::runtime_error("no");
    told.resize(static_cast<std::size_t>(size()));
    for (std::int64_t i = 0; i < count; ++i) ++told.at(static_cast<std::size_t>(first.value + i));
    return count * sample_bytes;
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    {
      const std::scoped_lock lock(mutex_);
      for (const SampleId id : ids) untold += told.empty() || told[static_cast<std::size_t>(id.value)] == 0;
    }
    CountingSource::read(ids, out);
  }

  std::int64_t sample_bytes = 16;
  bool is_failing = false;
  mutable std::vector<int> told;
  mutable std::int64_t untold = 0;
  mutable int calls = 0;

 private:
  mutable std::mutex mutex_;
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
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  return samples;
}

TEST(BlocksAhead, ASourceIsToldOfEachBlockOnceBeforeItIsRead) {
  for (const std::int64_t size : {1, 15, 64, 65, 1000, 4097}) {
    for (const int workers : {0, 1, 3}) {
      const auto source = std::make_shared<ToldSource>(size);
      LoaderOptions options = options_of();
      options.workers = workers;
      EXPECT_EQ(drain(source, options), size);
      EXPECT_EQ(source->untold, 0) << size << " samples, " << workers << " workers";
      EXPECT_THAT(source->told, testing::Each(1)) << size << " samples, " << workers << " workers";
    }
  }
}

TEST(BlocksAhead, ManyShardsAreToldOf) {
  for (const std::int64_t shards : {2, 5, 16}) {
    const auto source = std::make_shared<ToldSource>(3000);
    LoaderOptions options = options_of();
    options.shards = shards;
    options.interleave = 2;
    options.epochs = 2;
    options.tail = Tail::carry;
    EXPECT_EQ(drain(source, options), 6000);
    EXPECT_LE(source->untold, 7) << shards;  // of an epoch that begins in the batch of another
  }
}

TEST(BlocksAhead, GoesOnWhereALoaderIsSought) {
  const auto source = std::make_shared<ToldSource>(1000);
  Loader loader(source, options_of(), World{});
  loader.seek({.epoch = 0, .consumed = 640, .step = 80});
  while (loader.next()) {
  }
  EXPECT_EQ(source->untold, 0);
  EXPECT_LT(std::ranges::count_if(source->told, [](int times) { return times > 0; }), 500);
}

TEST(BlocksAhead, OthersAreNotToldOf) {
  for (const Shuffle shuffle : {Shuffle::none, Shuffle::within, Shuffle::global}) {
    const auto source = std::make_shared<ToldSource>(100);
    EXPECT_EQ(drain(source, options_of(shuffle)), 100);
    EXPECT_EQ(source->calls, 0);
  }
}

TEST(BlocksAhead, ARankThatReadsLittleOfABlockHasNoneBrought) {
  for (const auto& [ranks, is_told] : {std::pair{2, true}, {4, true}, {5, false}, {64, false}}) {
    const auto source = std::make_shared<ToldSource>(1000);
    drain(source, options_of(), {.rank = 0, .size = ranks});
    EXPECT_EQ(source->calls > 0, is_told) << ranks;
  }
}

TEST(BlocksAhead, NoMoreThanMayBeReadAheadIsBrought) {
  // Two windows of 64 samples.
  for (const auto& [sample_bytes, is_told] :
       {std::pair<std::int64_t, bool>{1 << 10, true}, {(1 << 10) + 1, false}, {0, false}}) {
    const auto source = std::make_shared<ToldSource>(1000);
    source->sample_bytes = sample_bytes;
    LoaderOptions options = options_of();
    options.read_ahead_bytes = 128 << 10;
    EXPECT_EQ(drain(source, options), 1000);
    EXPECT_EQ(source->calls > 1, is_told) << sample_bytes;
  }
}

TEST(BlocksAhead, WhatASourceThrowsThereIsDropped) {
  const auto source = std::make_shared<ToldSource>(100);
  source->is_failing = true;
  EXPECT_EQ(drain(source, options_of()), 100);
  EXPECT_EQ(source->calls, 1);
}

}  // namespace rota::test::blocks_ahead_test
