// How a batch is shared out to ranks and workers. Whatever the split, all slots together are the same batch.

#include "loader/side_by_side.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::split_test {

constexpr std::array kSplits = {Split::by_sample, Split::by_shard, Split::interleaved};

struct Step {
  std::vector<std::int64_t> ids;
  std::vector<SlotKind> kinds;
  friend bool operator==(const Step&, const Step&) = default;
};

// Puts a rank's part of a batch into its slots; each slot once.
void place(const Batch& batch, Step& step, std::vector<int>& times) {
  const auto size = static_cast<std::size_t>(batch.global_size());
  step.ids.resize(size, -1);
  step.kinds.resize(size);
  times.resize(size);
  ASSERT_TRUE(std::ranges::is_sorted(batch.slots()));
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    const auto slot = static_cast<std::size_t>(batch.slots()[i]);
    ASSERT_LT(slot, size);
    ++times[slot];
    step.ids[slot] = batch.ids()[i].value;
    step.kinds[slot] = batch.kinds()[i];
    EXPECT_EQ(batch.tensor("x").as<std::int64_t>()[2 * i], batch.ids()[i].value);
    EXPECT_EQ(std::ssize(batch.bytes(1, static_cast<std::int64_t>(i))), batch.ids()[i].value % 7);
  }
}

/// All steps of a world of `size` ranks.
std::vector<Step> run(const std::shared_ptr<const Source>& source, const LoaderOptions& options, int size) {
  test::SideBySide ranks(size, [&](World world) { return Loader(source, options, world); });
  std::vector<Step> steps;
  for (;;) {
    Step step;
    std::vector<int> times;
    if (!ranks.step([&](const Loader&, const Batch& batch) { place(batch, step, times); })) return steps;
    EXPECT_THAT(times, Each(1));
    steps.push_back(step);
  }
}

LoaderOptions random_options(std::mt19937_64& random) {
  return {.global_batch_size = 1 + static_cast<std::int64_t>(random() % 60),
          .shards = 1 + static_cast<std::int64_t>(random() % 40),
          .interleave = static_cast<std::int64_t>(random() % 5),
          .shuffle = static_cast<Shuffle>(random() % 4),
          .seed = random(),
          .tail = static_cast<Tail>(random() % 4),
          .epochs = 2,
          .workers = 0};
}

TEST(Split, OfAnyKindGivesTheSameGlobalBatchesAtAnyRanksAndWorkers) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto source = counting(1 + static_cast<std::int64_t>(random() % 400));
    LoaderOptions options = random_options(random);
    const auto expected = run(source, options, 1);
    for (const auto ranks : kSplits) {
      for (const auto workers : kSplits) {
        options.rank_split = ranks;
        options.worker_split = workers;
        options.workers = static_cast<int>(random() % 4);
        const int size = 1 + static_cast<int>(random() % 9);
        ASSERT_EQ(run(source, options, size), expected)
            << size << " ranks " << to_string(ranks) << ", " << options.workers << " workers "
            << to_string(workers);
      }
    }
  }
}

TEST(Split, ByShardGivesEachShardToOneRankAlone) {
  const auto source = counting(1000);
  LoaderOptions options{.global_batch_size = 37,
                        .shards = 20,
                        .shuffle = Shuffle::within,
                        .rank_split = Split::by_shard,
                        .epochs = 3};
  for (int r = 0; r < 3; ++r) {
    Loader loader(source, options, {.rank = r, .size = 3});
    while (const auto batch = loader.next()) {
      for (const SampleId id : batch->ids()) ASSERT_EQ(id.value / 50 % 3, r) << "sample " << id.value;
    }
  }
}

TEST(Split, BySampleGivesEachRankAsManyGiveOrTakeOne) {
  const auto source = counting(1000);
  for (int r = 0; r < 7; ++r) {
    Loader loader(source, {.global_batch_size = 37, .shards = 3}, {.rank = r, .size = 7});
    while (const auto batch = loader.next()) {
      EXPECT_THAT(std::abs(batch->size() * 7 - batch->global_size()), Lt(7));
      for (std::size_t i = 1; i < batch->slots().size(); ++i)
        EXPECT_EQ(batch->slots()[i], batch->slots()[i - 1] + 1);
    }
  }
}

TEST(Split, InterleavedDealsTheSlotsOutToRanksInTurn) {
  const auto source = counting(1000);
  for (int r = 0; r < 7; ++r) {
    Loader loader(source, {.global_batch_size = 37, .shards = 3, .rank_split = Split::interleaved},
                  {.rank = r, .size = 7});
    while (const auto batch = loader.next()) {
      EXPECT_EQ(batch->size(), (batch->global_size() - r + 6) / 7);
      for (std::size_t i = 0; i < batch->slots().size(); ++i) {
        EXPECT_EQ(batch->slots()[i], r + 7 * static_cast<std::int64_t>(i));
      }
    }
  }
}

TEST(Split, InterleavedDealsASliceOutToWorkersInTurn) {
  auto source = counting(1000);
  std::mutex mutex;
  std::map<std::int64_t, std::thread::id> readers;
  source->on_read = [&](SampleId id) {
    const std::lock_guard lock(mutex);
    readers[id.value] = std::this_thread::get_id();
  };
  Loader loader(source, {.global_batch_size = 50, .worker_split = Split::interleaved, .workers = 3},
                {.rank = 1, .size = 2});
  std::map<std::thread::id, std::set<std::size_t>> turns;
  while (const auto batch = loader.next()) {
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < batch->ids().size(); ++i) turns[readers[batch->ids()[i].value]].insert(i % 3);
  }
  EXPECT_EQ(turns.size(), 3U);
  for (const auto& [thread, own] : turns) EXPECT_EQ(own.size(), 1U);
}

// Which threads have read samples of each shard of 50.
std::map<std::int64_t, std::set<std::thread::id>> readers(LoaderOptions options, World world) {
  auto source = counting(1000);
  std::mutex mutex;
  std::map<std::int64_t, std::set<std::thread::id>> seen;
  source->on_read = [&](SampleId id) {
    const std::lock_guard lock(mutex);
    seen[id.value / 50].insert(std::this_thread::get_id());
  };
  Loader loader(source, std::move(options), world);
  while (loader.next()) {
  }
  return seen;
}

TEST(Split, ByShardGivesEachShardToOneWorkerAlone) {
  for (const auto ranks : {Split::by_sample, Split::by_shard}) {
    const auto seen = readers({.global_batch_size = 64,
                               .shards = 20,
                               .shuffle = Shuffle::within,
                               .rank_split = ranks,
                               .worker_split = Split::by_shard,
                               .workers = 3},
                              {.rank = 1, .size = 2});
    std::set<std::thread::id> all;
    for (const auto& [shard, threads] : seen) {
      EXPECT_EQ(threads.size(), 1U) << "shard " << shard;
      all.insert(threads.begin(), threads.end());
    }
    EXPECT_EQ(all.size(), 3U);
  }
}

TEST(Split, ByShardLeavesNoWorkerOfARankIdle) {
  const auto seen = readers({.global_batch_size = 64,
                             .shards = 20,
                             .shuffle = Shuffle::within,
                             .rank_split = Split::by_shard,
                             .worker_split = Split::by_shard,
                             .workers = 2},
                            {.rank = 1, .size = 2});
  std::set<std::thread::id> all;
  for (const auto& [shard, threads] : seen) all.insert(threads.begin(), threads.end());
  EXPECT_EQ(all.size(), 2U);
}

TEST(Split, BySampleLetsSeveralWorkersReadOneShard) {
  const auto seen = readers({.global_batch_size = 64, .shards = 1, .workers = 3}, {});
  std::set<std::thread::id> all;
  for (const auto& [fifty, threads] : seen) all.insert(threads.begin(), threads.end());
  EXPECT_EQ(all.size(), 3U);
}

}  // namespace rota::test::split_test
