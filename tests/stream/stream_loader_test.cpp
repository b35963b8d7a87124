// One rank's loader: the same batches however many threads read it. every_world_test.cpp has what is in them.

#include "moved_from.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test::stream_loader_test {

const std::vector<Numbers> kLengths{{17},   {5, 5, 5, 5},  {0, 3, 0, 1, 9}, {1, 100, 0, 2, 1, 1, 1},
                                    {0, 7}, Numbers(12, 2)};

void expect_same_batches(const Numbers& lengths, StreamLoaderOptions options) {
  StreamLoader plain(mixed(numbered(lengths)), options);
  const auto expected = batches_of(plain);
  for (options.workers = 0; options.workers < 4; ++options.workers) {
    for (const std::int64_t ahead : {1, 2, 5}) {
      for (const std::int64_t bytes : {0, 200, 1 << 20}) {
        options.read_ahead_batches = ahead;
        options.read_ahead_bytes = bytes;
        StreamLoader loader(mixed(numbered(lengths)), options);
        ASSERT_EQ(batches_of(loader), expected)
            << options.workers << " workers, ahead by " << ahead << ", " << bytes;
      }
    }
  }
}

TEST(StreamLoader, MakesTheSameBatchesHoweverItReads) {
  for (const Numbers& lengths : kLengths) {
    for (const std::int64_t size : {1, 3, 8}) {
      expect_same_batches(lengths, {.global_batch_size = size, .epochs = 2, .workers = 0});
    }
  }
}

TEST(StreamLoader, TakesSamplesFromItsShardsInTurn) {
  StreamLoader loader(numbered({2, 4, 3}), {.global_batch_size = 4});
  Numbers shards;
  while (const auto batch = loader.next()) {
    for (const StreamId& id : batch->stream_ids()) shards.push_back(id.shard.value);
  }
  EXPECT_THAT(shards, ElementsAre(0, 1, 2, 0, 1, 2, 1, 2, 1));
}

TEST(StreamLoader, HandsOutTensorsOfTheirSamplesThatOutliveIt) {
  std::optional<Batch> batch;
  {
    StreamLoader loader(numbered({9}), {.global_batch_size = 9});
    batch = loader.next();
  }
  ASSERT_TRUE(batch);
  const auto x = batch->tensor("x").as<std::int64_t>();
  const Tensor text = batch->tensor("text");
  ASSERT_EQ(x.size(), 18U);
  ASSERT_EQ(text.offsets.size(), 10U);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(x[2 * i + 1], batch->stream_ids()[i].input);
    EXPECT_EQ(text.offsets[i + 1] - text.offsets[i], static_cast<std::int64_t>(i % 5));
  }
}

TEST(StreamLoader, BeginsTheNextEpochAtTheNextStep) {
  StreamLoader loader(numbered({3, 4}), {.global_batch_size = 4, .epochs = 2});
  Numbers epochs;
  Numbers sizes;
  while (const auto batch = loader.next()) {
    EXPECT_EQ(batch->start().step, std::ssize(epochs));
    EXPECT_EQ(batch->end(), (Position{batch->start().epoch, 0, batch->start().step + 1}));
    epochs.push_back(batch->start().epoch);
    sizes.push_back(batch->size());
  }
  EXPECT_THAT(epochs, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(sizes, ElementsAre(4, 3, 4, 3));
  EXPECT_EQ(loader.position(), (Position{.epoch = 2, .consumed = 0, .step = 4}));
  EXPECT_FALSE(loader.next());
}

TEST(StreamLoader, EndsWhereThereIsNothing) {
  for (const std::int64_t epochs : {std::int64_t{3}, kEndless}) {
    StreamLoader empty(numbered({0, 0, 0}), {.epochs = epochs});
    EXPECT_FALSE(empty.next());
    EXPECT_FALSE(empty.next());
  }
}

// Of a ragged field alone, whose bytes are not known before it is read.
std::shared_ptr<const StreamSource> ragged(std::shared_ptr<const StreamSource> source) {
  const auto make = [](std::int64_t, const StreamSample& sample, StreamOutputs& outputs) {
    outputs.add().set(0, sample.bytes(0));
  };
  return flat_map(std::move(source), make,
                  {.fields = {{.name = "x", .dtype = DType::uint8, .ragged = true}}});
}

// Whether `ahead` batches of 4, and no more, were ever read beyond the one that the caller may be taking.
void expect_bounded(StreamLoaderOptions options, std::int64_t ahead, bool is_ragged = false) {
  const auto source = numbered({200, 200, 200});
  std::atomic<std::int64_t> read = 0;
  std::atomic<std::int64_t> taken = 0;
  std::atomic<bool> is_bounded = true;
  source->on_read = [&](StreamId) {
    if (++read > taken + 4 * ahead) is_bounded = false;
  };
  options.global_batch_size = 4;
  StreamLoader loader(is_ragged ? ragged(source) : source, options);
  do taken += 4;
  while (loader.next());
  EXPECT_TRUE(is_bounded) << options.workers << " workers";
}

TEST(StreamLoader, ReadsNoFurtherAheadThanItIsTold) {
  for (const int workers : {0, 1, 2, 3}) {
    expect_bounded({.workers = workers, .read_ahead_batches = 1}, 1);
    expect_bounded({.workers = workers, .read_ahead_batches = 3}, 3);
    expect_bounded({.workers = workers, .read_ahead_batches = 3, .read_ahead_bytes = 0}, 1);
    expect_bounded({.workers = workers, .read_ahead_batches = 3, .read_ahead_bytes = 0}, 1, true);
  }
}

TEST(StreamLoader, CountsWhatItDoes) {
  for (const int workers : {0, 2}) {
    StreamLoader loader(as_stream(counting(100), 4), {.global_batch_size = 8, .workers = workers});
    while (loader.next()) continue;
    const LoaderStats stats = loader.stats();
    EXPECT_EQ(stats.batches, 13);
    EXPECT_EQ(stats.samples, 100);
    std::int64_t read = 0;
    for (const LoaderStats::Worker& worker : stats.workers) read += worker.samples;
    EXPECT_EQ(read, 100);
  }
}

TEST(StreamLoader, ItsBatchesHaveKindsAndEpochsButNoIdsOfADataset) {
  StreamLoader loader(numbered({9}), {.global_batch_size = 3});
  const Batch batch = *loader.next();
  EXPECT_THAT(batch.kinds(), Each(SlotKind::sample));
  EXPECT_THAT(batch.epochs(), ElementsAre(0, 0, 0));
  EXPECT_EQ(batch.real(), 3);
  EXPECT_TRUE(batch.ids().empty() && batch.datasets().empty() && batch.slots().empty());
  EXPECT_THROW(static_cast<void>(batch.global_size()), Error);
  EXPECT_THROW(static_cast<void>(batch.global_real()), Error);
}

// NOLINTBEGIN(bugprone-use-after-move,hicpp-invalid-access-moved): what is tested

TEST(StreamLoader, RefusesEveryCallWhereItWasMovedFrom) {
  StreamLoader from(numbered({9}), {.global_batch_size = 3});
  StreamLoader to = std::move(from);
  Snapshot snapshot;
  expect_refused("a stream loader",
                 {[&] { (void)from.next(); }, [&] { static_cast<void>(from.position()); },
                  [&] { static_cast<void>(from.world()); }, [&] { static_cast<void>(from.options()); },
                  [&] { static_cast<void>(from.source()); }, [&] { static_cast<void>(from.fingerprint()); },
                  [&] { static_cast<void>(from.stats()); }, [&] { save(from, snapshot); }});
  EXPECT_EQ((*to.next()).start().step, 0);
  from = std::move(to);
  EXPECT_EQ((*from.next()).start().step, 1);
}

// NOLINTEND(bugprone-use-after-move,hicpp-invalid-access-moved)

}  // namespace rota::test::stream_loader_test
