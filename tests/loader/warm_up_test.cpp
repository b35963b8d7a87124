#include "source/told_source.hpp"

namespace rota::test::warm_up_test {

TEST(WarmUp, ReturnsWhenAllThatMayBeReadAheadIsReady) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const auto source = counting(1000);
    const auto ahead = static_cast<std::int64_t>(1 + random() % 10);
    Loader loader(source, {.global_batch_size = 10,
                           .workers = static_cast<int>(1 + random() % 4),
                           .read_ahead_batches = ahead});
    loader.warm_up();
    EXPECT_EQ(loader.stats().ready_batches, ahead);
    EXPECT_EQ(source->reads, ahead * 10);
    (void)loader.next();
    loader.warm_up();
    EXPECT_EQ(source->reads, (ahead + 1) * 10);
  }
}

TEST(WarmUp, EndsWhereTheRunOrTheMemoryDoes) {
  const auto source = counting(25);
  Loader whole(source, {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 8});
  whole.warm_up();
  EXPECT_EQ(whole.stats().ready_batches, 3);
  Loader bounded(source,
                 {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 8, .read_ahead_bytes = 1});
  bounded.warm_up();
  EXPECT_EQ(bounded.stats().ready_batches, 1);
  Loader alone(source, {.global_batch_size = 10, .workers = 0});
  alone.warm_up();
  EXPECT_EQ((*alone.next()).size(), 10);
}

TEST(WarmUp, LeavesWhatFailsToItsBatch) {
  const auto source = counting(100);
  std::atomic<bool> is_broken = true;
  std::atomic<bool> is_read = false;
  source->on_read = [&](SampleId id) {
    if (id.value != 15) return;
    if (is_broken) throw std::runtime_error("broken");
    is_read = true;
  };
  Loader loader(source, {.global_batch_size = 10, .shards = 1, .shuffle = Shuffle::none, .workers = 2});
  loader.warm_up();
  EXPECT_TRUE(loader.next());
  EXPECT_THROW(static_cast<void>(loader.next()), Error);
  is_broken = false;
  loader.warm_up();
  EXPECT_TRUE(is_read);
  EXPECT_EQ((*loader.next()).start().consumed, 10);
}

TEST(Workers, LiveAsLongAsTheLoaderWhateverItIsTold) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const Transform note{.apply = [&](const TransformContext&, const SampleView&, SampleOutput&) {
    const std::scoped_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
  }};
  Loader loader(counting(60), {.global_batch_size = 6, .epochs = kEndless, .workers = 3, .transform = note});
  for (int i = 0; i < 40; ++i) {
    for (int step = 0; step < 7; ++step) (void)loader.next();  // over ends of epochs
    if (i % 4 == 0) loader.rescale({.rank = i % 3, .size = 3});
    if (i % 4 == 1) loader.seek({.epoch = i, .consumed = 12, .step = 0});
    if (i % 4 == 2) loader.set_global_batch_size(6 + i % 5);
  }
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

}  // namespace rota::test::warm_up_test
