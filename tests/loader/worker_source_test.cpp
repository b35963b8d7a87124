// Sources that make an instance for each worker.

#include "loader/affine_source.hpp"
#include "loader/side_by_side.hpp"
#include "source/documents.hpp"
#include "source/numbered_rows.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::worker_source_test {

using test::AffineSource;
using test::error_of;
using test::is_error;

constexpr std::array kSplits = {Split::by_sample, Split::by_shard, Split::interleaved};

void run_out(Loader& loader) {
  while (loader.next()) {
  }
}

std::shared_ptr<AffineSource> sharded(std::int64_t size, std::int64_t shards) {
  return std::make_shared<AffineSource>(size, [size, shards](SampleId id) {
    std::int64_t s = 0;
    while (share(size, s + 1, shards) <= id.value) ++s;
    return ShardId{s};
  });
}

// Each worker of each rank was told its place once.
void expect_all_places(const std::vector<WorkerInfo>& told, int ranks, int workers) {
  std::set<std::pair<int, int>> places;
  for (const WorkerInfo& worker : told) {
    EXPECT_EQ(worker.world.size, ranks);
    EXPECT_EQ(worker.workers, workers);
    EXPECT_TRUE(places.emplace(worker.world.rank, worker.worker).second) << "made twice";
    EXPECT_LT(worker.world.rank, ranks);
    EXPECT_LT(worker.worker, workers);
  }
}

TEST(WorkerSource, IsMadeForEachWorkerAndReadByItsThreadAloneInItsShards) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto shards = 1 + static_cast<std::int64_t>(random() % 30);
    const auto source = sharded(shards + static_cast<std::int64_t>(random() % 300), shards);
    const LoaderOptions options{.global_batch_size = 1 + static_cast<std::int64_t>(random() % 50),
                                .shards = shards,
                                .shuffle = Shuffle::within,
                                .rank_split = kSplits[random() % 3],
                                .worker_split = kSplits[random() % 3],
                                .epochs = 2,
                                .workers = static_cast<int>(random() % 4)};
    const int size = 1 + static_cast<int>(random() % 5);
    {
      test::SideBySide ranks(size, [&](World world) { return Loader(source, options, world); });
      while (ranks.step([](const Loader&, const Batch&) {})) {
      }
      EXPECT_LE(source->instances->live(), size * std::max(options.workers, 1));
    }
    EXPECT_THAT(source->instances->complaints(), IsEmpty());
    expect_all_places(source->instances->told(), size, std::max(options.workers, 1));
    EXPECT_EQ(source->instances->live(), 0);
  }
}

TEST(WorkerSource, IsToldAllShardsOnceWhereTheyAreSplit) {
  for (const auto ranks : {Split::by_sample, Split::by_shard}) {
    const auto source = sharded(600, 30);
    const LoaderOptions options{.global_batch_size = 120,
                                .shards = 30,
                                .rank_split = ranks,
                                .worker_split = Split::by_shard,
                                .workers = 2};
    for (int r = 0; r < 3; ++r) {
      Loader loader(source, options, {.rank = r, .size = 3});
      loader.next();
    }
    std::vector<int> times(30);
    for (const WorkerInfo& worker : source->instances->told()) {
      for (const ShardId shard : worker.shards) ++times[static_cast<std::size_t>(shard.value)];
    }
    EXPECT_THAT(times, Each(ranks == Split::by_shard ? 1 : 3));
  }
}

TEST(WorkerSource, IsToldOfAllShardsWhereNoneIsItsOwn) {
  const auto source = std::make_shared<AffineSource>(100);
  Loader loader(source, {.shards = 30, .workers = 2});
  loader.next();
  for (const WorkerInfo& worker : source->instances->told()) EXPECT_EQ(worker.shards.size(), 30);
}

TEST(WorkerSource, IsMadeOncePerWorkerHoweverOftenTheLoaderSeeks) {
  const auto source = std::make_shared<AffineSource>(1000);
  Loader loader(source, {.global_batch_size = 40, .workers = 3});
  for (int i = 0; i < 5; ++i) {
    loader.next();
    loader.seek({});
    loader.set_global_batch_size(41 + i);
  }
  loader.warm_up();
  EXPECT_EQ(source->instances->live(), 3);
  EXPECT_THAT(source->instances->told(), SizeIs(3));
}

TEST(WorkerSource, IsMadeAnewOnRescale) {
  const auto source = std::make_shared<AffineSource>(1000);
  Loader loader(source, {.global_batch_size = 40, .workers = 3});
  loader.warm_up();
  loader.rescale({.rank = 1, .size = 2});
  loader.warm_up();
  const auto told = source->instances->told();
  ASSERT_THAT(told, SizeIs(6));
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(told[i].world, (World{.rank = 1, .size = 2}));
  EXPECT_EQ(source->instances->live(), 3);
  run_out(loader);
  EXPECT_THAT(source->instances->complaints(), IsEmpty());
}

// What it holds may be there once.
TEST(WorkerSource, HasEndedBeforeAnotherIsMadeForItsWorker) {
  const auto source = std::make_shared<AffineSource>(1000);
  source->on_make = [&](const WorkerInfo&) { EXPECT_LT(source->instances->live(), 3); };
  Loader loader(source, {.global_batch_size = 40, .workers = 3});
  for (int size = 2; size < 5; ++size) {
    loader.warm_up();
    loader.rescale({.rank = 1, .size = size});
  }
  run_out(loader);
  EXPECT_THAT(source->instances->told(), SizeIs(12));
}

TEST(WorkerSource, IsOneForTheCallersThreadWhereThereAreNoWorkers) {
  const auto source = std::make_shared<AffineSource>(100);
  Loader loader(source, {.workers = 0});
  EXPECT_THAT(source->instances->told(), IsEmpty());
  run_out(loader);
  ASSERT_THAT(source->instances->told(), SizeIs(1));
  EXPECT_EQ(source->instances->told()[0].worker, 0);
  EXPECT_EQ(source->instances->told()[0].workers, 1);
}

TEST(WorkerSource, OfOtherSamplesIsRefused) {
  for (const int workers : {0, 2}) {
    const auto source = std::make_shared<AffineSource>(100);
    source->other = counting(101);
    Loader loader(source, {.workers = workers});
    EXPECT_THAT(error_of([&] { loader.next(); }),
                is_error(ErrorCode::callback, {"worker 0 of", "100 samples", "101", "for_worker()"}));
  }
}

TEST(WorkerSource, OfOtherFieldsIsRefused) {
  const auto source = std::make_shared<AffineSource>(100);
  source->other = std::make_shared<test::NumberedRows>(100);
  ASSERT_NE(source->other->fields(), source->fields());
  Loader loader(source, {.workers = 2});
  EXPECT_THAT(
      error_of([&] { loader.next(); }),
      is_error(ErrorCode::callback, {"the source has 100 samples of", "for_worker() makes has 100 of"}));
}

TEST(WorkerSource, ThatCannotBeMadeIsTriedAgain) {
  for (const int workers : {0, 1, 3}) {
    const auto source = std::make_shared<AffineSource>(100);
    std::atomic<bool> fails = true;
    source->on_make = [&](const WorkerInfo& worker) {
      if (fails && worker.worker == worker.workers - 1) throw Error(ErrorCode::corrupt, "no licence");
    };
    Loader loader(source, {.global_batch_size = 10, .workers = workers});
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(error_of([&] { loader.next(); }), is_error(ErrorCode::corrupt, {"worker", "no licence"}));
    }
    EXPECT_EQ(loader.stats().retries, 0) << "by the caller alone";
    fails = false;
    run_out(loader);
    EXPECT_EQ(loader.position().step, 10);
    EXPECT_THAT(source->instances->told(), SizeIs(std::max(workers, 1)));
  }
}

TEST(WorkerSource, IsTriedAgainByItselfAfterAnIoError) {
  const auto source = std::make_shared<AffineSource>(100);
  std::atomic<int> times = 0;
  source->on_make = [&](const WorkerInfo&) {
    if (++times < 3) throw Error(ErrorCode::io, "no answer");
  };
  Loader loader(source, {.workers = 1, .bad_samples = {.io_retries = 2, .retry_wait = {}}});
  run_out(loader);
  EXPECT_EQ(loader.stats().retries, 2);
}

using Shared = std::shared_ptr<const Source>;

/// What `make` makes of an affine source gives what it makes of the plain one, read through instances alone.
template <typename Make>
void expect_forwarded(const Make& make, const Shared& plain, bool may_be_sized = false) {
  const auto affine = std::make_shared<AffineSource>(plain);
  affine->may_be_sized = may_be_sized;
  const LoaderOptions options{.global_batch_size = 9, .epochs = 2, .workers = 3};
  Loader expected(make(plain), options);
  {
    Loader loader(make(affine), options);
    while (const auto batch = loader.next()) {
      const auto other = expected.next();
      ASSERT_TRUE(other.has_value());
      for (std::size_t f = 0; f < batch->fields().size(); ++f) {
        EXPECT_TRUE(std::ranges::equal(batch->tensor(f).bytes, other->tensor(f).bytes));
      }
    }
    EXPECT_EQ(affine->instances->live(), 3);
  }
  EXPECT_EQ(affine->instances->live(), 0);
  EXPECT_THAT(affine->instances->complaints(), IsEmpty());
}

TEST(WorkerSource, IsMadeThroughSplitsAndJoins) {
  const auto plain = counting(200);
  const std::array fractions = {0.5, 0.5};
  expect_forwarded([&](const Shared& source) { return split(source, fractions, 1)[1]; }, plain);
  const auto first = counting(30);
  expect_forwarded([&](const Shared& source) { return join({first, source}); }, plain);
}

TEST(WorkerSource, IsMadeThroughMixtures) {
  const auto plain = counting(200);
  const auto mixture = [&](const Shared& source) { return Mixture{.datasets = {{source, 1}, {plain, 2}}}; };
  expect_forwarded(mixture, plain);
}

TEST(WorkerSource, IsMadeThroughWindows) {
  const auto windowed = [](const Shared& source) { return Shared(windows(source, {.length = 4})); };
  expect_forwarded(windowed, std::make_shared<test::NumberedRows>(300));
}

// The lengths of documents are asked for when they are packed, and by no worker.
TEST(WorkerSource, IsMadeThroughPacking) {
  const auto packed = [](const Shared& source) { return pack(source, {.length = 16}); };
  const std::vector<std::int64_t> lengths = {3, 0, 40, 7, 100, 16, 1, 1, 60, 80, 200, 31, 5, 90};
  expect_forwarded(packed, std::make_shared<test::Documents>(lengths), true);
}

}  // namespace rota::test::worker_source_test
