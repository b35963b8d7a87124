// Sources that make an instance for each worker.

#include "loader/affine_source.hpp"
#include "loader/course.hpp"

namespace rota::test::worker_source_test {

constexpr std::array kSplits = {Split::by_sample, Split::by_shard, Split::interleaved};

class WorkerSource : public Test {
 protected:
  static std::shared_ptr<ToldSource> sharded(const std::shared_ptr<Instances>& instances, std::int64_t size,
                                             std::int64_t shards) {
    return affine(instances, counting(size), [size, shards](SampleId id) {
      std::int64_t s = 0;
      while (share(size, s + 1, shards) <= id.value) ++s;
      return ShardId{s};
    });
  }

  std::shared_ptr<Instances> instances_ = std::make_shared<Instances>();
  std::shared_ptr<ToldSource> source_ = affine(instances_, counting(1000));
  decltype(source_->on_worker) make_ = source_->on_worker;
};

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

TEST_F(WorkerSource, IsMadeForEachWorkerAndReadByItsThreadAloneInItsShards) {
  for_seeds(40, [&](std::uint64_t, std::mt19937_64& random) {
    const auto shards = 1 + static_cast<std::int64_t>(random() % 30);
    const auto instances = std::make_shared<Instances>();
    const auto source = sharded(instances, shards + static_cast<std::int64_t>(random() % 300), shards);
    const LoaderOptions options{.global_batch_size = 1 + static_cast<std::int64_t>(random() % 50),
                                .shards = shards,
                                .shuffle = Shuffle::within,
                                .rank_split = kSplits[random() % 3],
                                .worker_split = kSplits[random() % 3],
                                .epochs = 2,
                                .workers = static_cast<int>(random() % 4)};
    const int size = 1 + static_cast<int>(random() % 5);
    {
      SideBySide ranks(size, [&](World world) { return Loader(source, options, world); });
      while (ranks.step([](const Loader&, const Batch&) {})) continue;
      EXPECT_LE(instances->live(), size * std::max(options.workers, 1));
    }
    EXPECT_THAT(instances->complaints(), IsEmpty());
    expect_all_places(instances->told(), size, std::max(options.workers, 1));
    EXPECT_EQ(instances->live(), 0);
  });
}

TEST_F(WorkerSource, IsToldAllShardsOnceWhereTheyAreSplit) {
  for (const auto ranks : {Split::by_sample, Split::by_shard}) {
    const auto instances = std::make_shared<Instances>();
    const auto source = sharded(instances, 600, 30);
    const LoaderOptions options{.global_batch_size = 120,
                                .shards = 30,
                                .rank_split = ranks,
                                .worker_split = Split::by_shard,
                                .workers = 2};
    for (int r = 0; r < 3; ++r) {
      Loader loader(source, options, {.rank = r, .size = 3});
      (void)loader.next();
    }
    std::vector<int> times(30);
    for (const WorkerInfo& worker : instances->told()) {
      for (const ShardId shard : worker.shards) ++times[static_cast<std::size_t>(shard.value)];
    }
    EXPECT_THAT(times, Each(ranks == Split::by_shard ? 1 : 3));
  }
}

TEST_F(WorkerSource, IsToldOfAllShardsWhereNoneIsItsOwn) {
  Loader loader(source_, {.shards = 30, .workers = 2});
  (void)loader.next();
  for (const WorkerInfo& worker : instances_->told()) EXPECT_EQ(worker.shards.size(), 30);
}

TEST_F(WorkerSource, IsMadeOncePerWorkerHoweverOftenTheLoaderSeeks) {
  Loader loader(source_, {.global_batch_size = 40, .workers = 3});
  for (int i = 0; i < 5; ++i) {
    (void)loader.next();
    loader.seek({});
    loader.set_global_batch_size(41 + i);
  }
  loader.warm_up();
  EXPECT_EQ(instances_->live(), 3);
  EXPECT_THAT(instances_->told(), SizeIs(3));
}

TEST_F(WorkerSource, IsMadeAnewOnRescale) {
  Loader loader(source_, {.global_batch_size = 40, .workers = 3});
  loader.warm_up();
  loader.rescale({.rank = 1, .size = 2});
  loader.warm_up();
  const auto told = instances_->told();
  ASSERT_THAT(told, SizeIs(6));
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(told[i].world, (World{.rank = 1, .size = 2}));
  EXPECT_EQ(instances_->live(), 3);
  run_out(loader);
  EXPECT_THAT(instances_->complaints(), IsEmpty());
}

// What it holds may be there once.
TEST_F(WorkerSource, HasEndedBeforeAnotherIsMadeForItsWorker) {
  source_->on_worker = [&](const WorkerInfo& worker) {
    EXPECT_LT(instances_->live(), 3);
    return make_(worker);
  };
  Loader loader(source_, {.global_batch_size = 40, .workers = 3});
  for (int size = 2; size < 5; ++size) {
    loader.warm_up();
    loader.rescale({.rank = 1, .size = size});
  }
  run_out(loader);
  EXPECT_THAT(instances_->told(), SizeIs(12));
}

TEST_F(WorkerSource, IsOneForTheCallersThreadWhereThereAreNoWorkers) {
  Loader loader(source_, {.workers = 0});
  EXPECT_THAT(instances_->told(), IsEmpty());
  run_out(loader);
  ASSERT_THAT(instances_->told(), SizeIs(1));
  EXPECT_EQ(instances_->told()[0].worker, 0);
  EXPECT_EQ(instances_->told()[0].workers, 1);
}

TEST_F(WorkerSource, OfOtherSamplesOrFieldsIsRefused) {
  for (const int workers : {0, 2}) {
    const auto refused = [&](std::int64_t size, Fields fields) {
      source_->on_worker = [=](const WorkerInfo&) { return std::make_unique<ToldSource>(size, fields); };
      return error_of([&] { (void)Loader(source_, {.workers = workers}).next(); });
    };
    EXPECT_THAT(refused(1001, source_->fields()),
                is_error(callback, {"worker 0 of", "1000 samples", "1001", "for_worker()"}));
    EXPECT_THAT(refused(1000, kOneNumber),
                is_error(callback, {"the source has 1000 samples of", "for_worker() makes has 1000 of"}));
  }
}

TEST_F(WorkerSource, ThatCannotBeMadeIsTriedAgain) {
  for (const int workers : {0, 1, 3}) {
    const auto before = instances_->told().size();
    std::atomic<bool> fails = true;
    source_->on_worker = [&](const WorkerInfo& worker) {
      if (fails && worker.worker == worker.workers - 1) throw Error(corrupt, "no licence");
      return make_(worker);
    };
    Loader loader(source_, {.global_batch_size = 100, .workers = workers});
    for (int i = 0; i < 2; ++i) {
      EXPECT_ERROR(loader.next(), corrupt, {"worker", "no licence"});
    }
    EXPECT_EQ(loader.stats().retries, 0) << "by the caller alone";
    fails = false;
    run_out(loader);
    EXPECT_EQ(loader.position().step, 10);
    EXPECT_EQ(instances_->told().size(), before + static_cast<std::size_t>(std::max(workers, 1)));
  }
}

TEST_F(WorkerSource, IsTriedAgainByItselfAfterAnIoError) {
  std::atomic<int> times = 0;
  source_->on_worker = [&](const WorkerInfo& worker) {
    if (++times < 3) throw Error(io, "no answer");
    return make_(worker);
  };
  Loader loader(source_, {.workers = 1, .bad_samples = {.io_retries = 2, .retry_wait = {}}});
  run_out(loader);
  EXPECT_EQ(loader.stats().retries, 2);
}

using Shared = std::shared_ptr<const Source>;

/// What `make` makes of an affine source gives what it makes of the plain one, read through instances alone.
template <typename Make>
void expect_forwarded(const Make& make, const std::function<std::shared_ptr<ToldSource>()>& plain,
                      bool may_be_sized = false) {
  const auto instances = std::make_shared<Instances>();
  const auto source = affine(instances, plain());
  if (may_be_sized) source->on_rows = {};
  const LoaderOptions options{.global_batch_size = 9, .epochs = 2, .workers = 3};
  Loader expected(make(plain()), options);
  {
    Loader loader(make(source), options);
    while (const auto batch = loader.next()) {
      const auto other = expected.next();
      ASSERT_TRUE(other.has_value());
      for (std::size_t f = 0; f < batch->fields().size(); ++f) {
        EXPECT_TRUE(std::ranges::equal(batch->tensor(f).bytes, other->tensor(f).bytes));
      }
    }
    EXPECT_EQ(instances->live(), 3);
  }
  EXPECT_EQ(instances->live(), 0);
  EXPECT_THAT(instances->complaints(), IsEmpty());
}

TEST_F(WorkerSource, IsMadeThroughWhateverIsMadeOfIt) {
  const auto plain = [] { return counting(200); };
  const std::array fractions = {0.5, 0.5};
  expect_forwarded([&](const Shared& source) { return split(source, fractions, 1)[1]; }, plain);
  expect_forwarded([&](const Shared& source) { return join({counting(30), source}); }, plain);
  expect_forwarded([&](const Shared& source) { return select(source, {{7}, {199}, {7}, {0}}); }, plain);
  expect_forwarded([&](const Shared& source) { return skip_first(take(source, 100), 50); }, plain);
  expect_forwarded([&](const Shared& source) { return zip({told(200, {{.name = "one"}}), source}); }, plain);
  expect_forwarded(
      [&](const Shared& source) {
        return Mixture{.datasets = {{source, 1}, {plain(), 2}}};
      },
      plain);
  expect_forwarded([](const Shared& source) { return Shared(windows(source, {.length = 4})); },
                   [] { return std::make_shared<NumberedRows>(300); });
  // The lengths of documents are asked for when they are packed, and by no worker.
  const Numbers lengths = {3, 0, 40, 7, 100, 16, 1, 1, 60, 80, 200, 31, 5, 90};
  expect_forwarded([](const Shared& source) { return pack(source, {.length = 16}); },
                   [&] { return std::make_shared<Documents>(lengths); }, true);
}

}  // namespace rota::test::worker_source_test
