#include "loader/course.hpp"
#include "test.hpp"

namespace rota::test::loader_test {

TEST(Loader, MovesItsPositionOnlyWhenABatchIsHandedOver) {
  Loader loader(counting(100), {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 8});
  EXPECT_EQ(loader.position(), Position{});
  auto batch = loader.next();
  EXPECT_EQ(loader.position(), (Position{.epoch = 0, .consumed = 10, .step = 1}));
  for (int k = 0; k < 9; ++k) batch = loader.next();
  EXPECT_EQ(loader.position(), (Position{.epoch = 1, .consumed = 0, .step = 10}));
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(Loader, SeeksBackAndForthExactly) {
  Loader loader(counting(120), {.global_batch_size = 7, .epochs = 2, .workers = 2});
  std::vector<std::pair<Position, Numbers>> seen;
  for (Position at; const auto batch = loader.next(); at = loader.position()) {
    seen.emplace_back(at, ids_of(*batch));
  }
  for (const std::size_t k : {5U, 0U, 30U, 17U, 17U, 34U}) {
    loader.seek(seen[k].first);
    const auto batch = loader.next();
    EXPECT_EQ(ids_of(*batch), seen[k].second);
  }
}

TEST(Loader, ChangesTheBatchSizeBetweenSteps) {
  Loader loader(counting(100), {.global_batch_size = 10, .shuffle = Shuffle::none, .workers = 1});
  EXPECT_EQ((*loader.next()).size(), 10);
  loader.set_global_batch_size(33);
  EXPECT_EQ((*loader.next()).size(), 33);
  EXPECT_EQ(loader.position().consumed, 43);
  EXPECT_EQ((*loader.next()).start().consumed, 43);
}

TEST(Loader, MarksPaddingAndSaysHowManySamplesAreReal) {
  Loader loader(counting(10), {.global_batch_size = 8, .tail = Tail::pad});
  const auto first = loader.next();
  EXPECT_THAT(first->kinds(), Each(SlotKind::sample));
  const auto last = loader.next();
  EXPECT_EQ(last->global_size(), 8);
  EXPECT_EQ(last->global_real(), 2);
  EXPECT_EQ(std::count(last->kinds().begin(), last->kinds().end(), SlotKind::pad), 6);
}

TEST(Loader, GivesEverySlotItsEpochWhereABatchCarriesOver) {
  Loader loader(counting(5), {.global_batch_size = 3, .tail = Tail::carry, .epochs = 2});
  const auto first = loader.next();
  const auto second = loader.next();
  EXPECT_THAT(first->epochs(), ElementsAre(0, 0, 0));
  EXPECT_THAT(second->epochs(), ElementsAre(0, 0, 1));
}

TEST(Loader, HoldsTheBoundOfBytesButAlwaysOneBatch) {
  const auto source = counting(1000);
  Loader loader(source,
                {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 50, .read_ahead_bytes = 1});
  std::int64_t handed = 0;
  for (const Batch& batch : loader) {
    handed += batch.size();
    // Only the batch at hand may be under way: what was handed over, and the next one.
    EXPECT_LE(source->reads, handed + 10);
  }
  EXPECT_EQ(handed, 1000);
}

TEST(Loader, CountsWhatItDid) {
  for (const int workers : {0, 2}) {
    Loader loader(counting(100), {.global_batch_size = 10, .workers = workers});
    for (const Batch& batch : loader) (void)batch;
    const LoaderStats stats = loader.stats();
    EXPECT_EQ(stats.batches, 10);
    EXPECT_EQ(stats.samples, 100);
    EXPECT_EQ(static_cast<int>(stats.workers.size()), std::max(workers, 1));
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    for (const WorkerStats& worker : stats.workers) {
      samples += worker.samples;
      bytes += worker.bytes;
      EXPECT_GT(worker.read_seconds, 0);
    }
    EXPECT_EQ(samples, 100);
    EXPECT_EQ(bytes, stats.bytes);
  }
}

TEST(Loader, EndsAtOnceWithoutSamples) {
  for (const int workers : {0, 2}) {
    Loader loader(counting(0), {.epochs = kEndless, .workers = workers});
    EXPECT_FALSE(loader.next());
    EXPECT_EQ(loader.position(), Position{});
  }
}

TEST(Loader, GoesOnWithoutEnd) {
  Loader loader(counting(3), {.global_batch_size = 2, .epochs = kEndless});
  for (int k = 0; k < 100; ++k) ASSERT_TRUE(loader.next());
  EXPECT_EQ(loader.position().epoch, 50);
}

}  // namespace rota::test::loader_test
