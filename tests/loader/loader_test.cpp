#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::loader_test {

struct Step {
  Position start;
  std::vector<std::int64_t> ids;
  std::vector<SlotKind> kinds;
  friend bool operator==(const Step&, const Step&) = default;
};

void expect_content(const Batch& batch) {
  const auto x = batch.tensor("x").as<std::int64_t>();
  const Tensor text = batch.tensor("text");
  ASSERT_EQ(std::ssize(x), 2 * batch.size());
  ASSERT_EQ(std::ssize(text.offsets), batch.size() + 1);
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const std::int64_t id = batch.ids()[static_cast<std::size_t>(i)].value;
    ASSERT_EQ(x[static_cast<std::size_t>(2 * i + 1)], id);
    ASSERT_EQ(std::ssize(batch.bytes(1, i)), id % 7);
    for (const std::byte b : batch.bytes(1, i)) ASSERT_EQ(b, static_cast<std::byte>(id));
  }
}

void append(const Batch& batch, Step& step) {
  expect_content(batch);
  step.start = batch.start();
  for (const SampleId id : batch.ids()) step.ids.push_back(id.value);
  step.kinds.insert(step.kinds.end(), batch.kinds().begin(), batch.kinds().end());
}

/// A world of loaders in one process, stepped together.
class Collectives {
 public:
  Collectives(const std::shared_ptr<const Source>& source, const LoaderOptions& options, int ranks,
              const Position& at = {}) {
    for (int r = 0; r < ranks; ++r) {
      loaders_.emplace_back(source, options, World{.rank = r, .size = ranks});
      loaders_.back().seek(at);
    }
  }
  bool step(Step& out) {
    out = {};
    int ended = 0;
    for (Loader& loader : loaders_) {
      const auto batch = loader.next();
      if (batch) append(*batch, out);
      ended += batch ? 0 : 1;
    }
    EXPECT_TRUE(ended == 0 || ended == static_cast<int>(loaders_.size()))
        << "ranks took unequal numbers of steps";
    return ended == 0;
  }
  Loader& operator[](int rank) { return loaders_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<Loader> loaders_;
};

std::vector<Step> all_steps(Collectives& ranks) {
  std::vector<Step> steps;
  for (Step step; ranks.step(step);) steps.push_back(step);
  return steps;
}

TEST(Loader, DeliversTheSameGlobalBatchesAtAnyWorldAndNumberOfWorkers) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const auto source = counting(static_cast<std::int64_t>(random() % 300));
    LoaderOptions options{.global_batch_size = 1 + static_cast<std::int64_t>(random() % 40),
                          .shards = 1 + static_cast<std::int64_t>(random() % 50),
                          .shuffle = static_cast<Shuffle>(random() % 4),
                          .seed = random(),
                          .tail = static_cast<Tail>(random() % 4),
                          .epochs = 2,
                          .workers = 0};
    Collectives alone(source, options, 1);
    const auto expected = all_steps(alone);
    for (const auto& [size, workers] : std::vector<std::pair<int, int>>{{1, 3}, {3, 1}, {4, 2}, {7, 0}}) {
      options.workers = workers;
      options.read_ahead_batches = 1 + round % 4;
      Collectives ranks(source, options, size);
      ASSERT_EQ(all_steps(ranks), expected) << size << " x " << workers;
    }
  }
}

TEST(Loader, RescalesInMemoryBetweenAnyTwoSteps) {
  const auto source = counting(500, std::vector<std::int64_t>{100, 0, 250, 50, 100});
  LoaderOptions options{.global_batch_size = 16, .shards = 5, .tail = Tail::carry, .epochs = 3, .workers = 1};
  Collectives alone(source, options, 1);
  const auto expected = all_steps(alone);
  std::vector<Step> steps;
  Position at;
  for (const int size : {8, 7, 13, 1, 32, 5}) {
    Collectives ranks(source, options, 1, at);
    std::vector<Loader> loaders;
    for (int r = 0; r < size; ++r) {
      loaders.emplace_back(source, options);
      loaders.back().seek(at);
      loaders.back().rescale({.rank = r, .size = size});
    }
    for (int k = 0; k < 9; ++k) {
      Step step;
      for (Loader& loader : loaders) append(*loader.next(), step);
      steps.push_back(step);
    }
    at = loaders[0].position();
  }
  ASSERT_LE(steps.size(), expected.size());
  EXPECT_EQ(steps, std::vector<Step>(expected.begin(), expected.begin() + std::ssize(steps)));
}

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
  const auto source = counting(120);
  Loader loader(source, {.global_batch_size = 7, .epochs = 2, .workers = 2});
  std::vector<std::pair<Position, std::vector<std::int64_t>>> seen;
  const auto ids = [](const Batch& batch) {
    std::vector<std::int64_t> out;
    for (const SampleId id : batch.ids()) out.push_back(id.value);
    return out;
  };
  for (Position at = loader.position(); auto batch = loader.next(); at = loader.position())
    seen.emplace_back(at, ids(*batch));
  for (const std::size_t k : {5U, 0U, 30U, 17U, 17U, 34U}) {
    loader.seek(seen[k].first);
    EXPECT_EQ(ids(*loader.next()), seen[k].second);
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

TEST(Loader, ReadsInARangeFor) {
  Loader loader(counting(100), {.global_batch_size = 8});
  std::int64_t samples = 0;
  for (Batch& batch : loader) samples += batch.size();
  EXPECT_EQ(samples, 100);
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

TEST(Loader, ReadsAsFarAheadAsItIsToldAndNoFurther) {
  const auto source = counting(1000);
  Loader loader(source, {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 3});
  const auto wait_for = [&](std::int64_t reads) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (source->reads < reads && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    for (int k = 0; k < 1000; ++k) std::this_thread::yield();  // time to go too far
    return source->reads.load();
  };
  EXPECT_EQ(wait_for(30), 30);
  static_cast<void>(loader.next());
  EXPECT_EQ(wait_for(40), 40);
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

TEST(Loader, UsesItsMemoryAgainAndReturnsAllOfIt) {
  std::atomic<int> asked = 0;
  std::atomic<int> returned = 0;
  {
    Batch survivor;
    {
      Allocator allocator{.allocate =
                              [&](std::size_t bytes) {
                                ++asked;
                                return ::operator new (bytes, std::align_val_t{64});
                              },
                          .release =
                              [&](void* memory, std::size_t /*bytes*/) {
                                ++returned;
                                ::operator delete (memory, std::align_val_t{64});
                              }};
      Loader loader(counting(10'000),
                    {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 3, .allocator = allocator});
      while (auto batch = loader.next()) survivor = std::move(*batch);
      EXPECT_LE(asked,
                2 * 5 * 2);  // two fields, ring + one at hand + one survivor, and once more where one grew
    }
    expect_content(survivor);
  }
  EXPECT_EQ(asked, returned);
}

TEST(Loader, CountsWhatItDid) {
  for (const int workers : {0, 2}) {
    Loader loader(counting(100), {.global_batch_size = 10, .workers = workers});
    for (const Batch& batch : loader) static_cast<void>(batch);
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

TEST(Loader, GivesEmptySlicesToRanksThatHaveNone) {
  const auto source = counting(5);
  Collectives ranks(source, {.global_batch_size = 2, .workers = 3}, 4);
  EXPECT_EQ(all_steps(ranks).size(), 3U);
}

TEST(Loader, GoesOnWithoutEnd) {
  Loader loader(counting(3), {.global_batch_size = 2, .epochs = kEndless});
  for (int k = 0; k < 100; ++k) ASSERT_TRUE(loader.next());
  EXPECT_EQ(loader.position().epoch, 50);
}

}  // namespace rota::test::loader_test
