// How a batch is shared out to ranks and workers. Whatever the split, all slots together are the same batch.

#include "loader/course.hpp"

namespace rota::test::split_test {

constexpr std::array kSplits = {Split::by_sample, Split::by_shard, Split::interleaved};

TEST(Split, OfAnyKindGivesTheSameGlobalBatchesAtAnyRanksAndWorkers) {
  for_seeds(25, [&](std::uint64_t, std::mt19937_64& random) {
    Course course = random_course("Samples", random);
    course.options.rank_split = Split::by_sample;
    course.options.balance = {};
    const auto expected = course.unbroken();
    for (const auto ranks : kSplits) {
      for (const auto workers : kSplits) {
        course.options.rank_split = ranks;
        course.options.worker_split = workers;
        course.options.workers = static_cast<int>(random() % 4);
        const int size = 1 + static_cast<int>(random() % 9);
        ASSERT_EQ(course.unbroken(size), expected)
            << size << " ranks " << to_string(ranks) << ", " << course.options.workers << " workers "
            << to_string(workers);
      }
    }
  });
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

/// Which thread has read each of 1000 samples.
std::map<std::int64_t, std::thread::id> readers(LoaderOptions options, World world) {
  const auto source = counting(1000);
  std::mutex mutex;
  std::map<std::int64_t, std::thread::id> seen;
  source->on_read = [&](SampleId id) {
    const std::lock_guard lock(mutex);
    seen[id.value] = std::this_thread::get_id();
  };
  Loader loader(source, std::move(options), world);
  run_out(loader);
  return seen;
}

std::size_t count_threads(const std::map<std::int64_t, std::thread::id>& readers) {
  std::set<std::thread::id> threads;
  for (const auto& [id, thread] : readers) threads.insert(thread);
  return threads.size();
}

TEST(Split, InterleavedDealsASliceOutToWorkersInTurn) {
  const LoaderOptions options{.global_batch_size = 50, .worker_split = Split::interleaved, .workers = 3};
  auto thread_of = readers(options, {.rank = 1, .size = 2});
  std::map<std::thread::id, std::set<std::size_t>> turns;
  Loader loader(counting(1000), options, {.rank = 1, .size = 2});
  for (const Batch& batch : loader) {
    for (std::size_t i = 0; i < batch.ids().size(); ++i) turns[thread_of[batch.ids()[i].value]].insert(i % 3);
  }
  EXPECT_EQ(turns.size(), 3U);
  for (const auto& [thread, own] : turns) EXPECT_EQ(own.size(), 1U);
}

TEST(Split, ByShardGivesEachShardToOneWorkerAloneAndLeavesNoneIdle) {
  for (const auto ranks : {Split::by_sample, Split::by_shard}) {
    for (const int workers : {2, 3}) {
      const auto thread_of = readers({.global_batch_size = 64,
                                      .shards = 20,
                                      .shuffle = Shuffle::within,
                                      .rank_split = ranks,
                                      .worker_split = Split::by_shard,
                                      .workers = workers},
                                     {.rank = 1, .size = 2});
      std::map<std::int64_t, std::set<std::thread::id>> by_shard;
      for (const auto& [id, thread] : thread_of) by_shard[id / 50].insert(thread);
      for (const auto& [shard, threads] : by_shard) EXPECT_EQ(threads.size(), 1U) << "shard " << shard;
      EXPECT_EQ(count_threads(thread_of), static_cast<std::size_t>(workers));
    }
  }
}

TEST(Split, BySampleLetsSeveralWorkersReadOneShard) {
  EXPECT_EQ(count_threads(readers({.global_batch_size = 64, .shards = 1, .workers = 3}, {})), 3U);
}

}  // namespace rota::test::split_test
