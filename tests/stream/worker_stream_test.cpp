// Streams that make an instance for each worker.

#include "loader/affine_source.hpp"
#include "source/reading.hpp"
#include "stream/numbered_stream.hpp"
#include "stream/ring.hpp"

namespace rota::test::worker_stream_test {

const Numbers kLengths = {9, 0, 20, 3, 1, 14, 7};

std::vector<std::vector<Seen>> run(std::shared_ptr<const StreamSource> source, int workers,
                                   std::int64_t steps = kEndless) {
  StreamLoader loader(std::move(source), {.global_batch_size = 5, .epochs = 3, .workers = workers});
  std::vector<std::vector<Seen>> all;
  for (; steps > 0; --steps) {
    const auto batch = loader.next();
    if (!batch) break;
    all.push_back(seen(*batch));
  }
  return all;
}

class WorkerStream : public Test {
 protected:
  /// A NumberedStream that is read through instances alone, of which `instances` knows.
  static std::shared_ptr<NumberedStream> affine(std::shared_ptr<Instances> instances,
                                                const Numbers& lengths = kLengths) {
    auto source = numbered(lengths);
    source->on_use = [=](const char* what, ShardId) {
      instances->complain(std::string(what) + " in common");
    };
    source->on_worker = [=](const WorkerInfo& worker) {
      auto own = std::make_unique<NumberedStream>(lengths);
      const auto one = std::make_shared<InstanceOfOne>(instances, worker);
      own->on_use = [one](const char* what, ShardId shard) { one->look(what, shard); };
      return own;
    };
    return source;
  }
  /// As many were made as told, used as they are to be, and have ended.
  static void expect_good(const Instances& instances, std::int64_t made) {
    EXPECT_THAT(instances.told(), SizeIs(made));
    EXPECT_THAT(instances.complaints(), IsEmpty());
    EXPECT_EQ(instances.live(), 0);
  }

  std::shared_ptr<Instances> instances_ = std::make_shared<Instances>();
  std::shared_ptr<NumberedStream> source_ = affine(instances_);
  decltype(source_->on_worker) make_ = source_->on_worker;
};

TEST_F(WorkerStream, IsMadeOnceForEachWorkerAndUsedByItsThreadAlone) {
  for (const int workers : {0, 1, 2, 3}) {
    for (const std::int64_t steps : {std::int64_t{4}, kEndless}) {
      const auto instances = std::make_shared<Instances>();
      EXPECT_EQ(run(affine(instances), workers, steps), run(numbered(kLengths), workers, steps));
      expect_good(*instances, std::max(workers, 1));
    }
  }
}

TEST_F(WorkerStream, IsToldItsPlaceAndItsShards) {
  run(source_, 3);
  Numbers shards;
  std::set<int> workers;
  for (const WorkerInfo& worker : instances_->told()) {
    EXPECT_EQ(worker.workers, 3);
    EXPECT_EQ(worker.world, World());
    workers.insert(worker.worker);
    for (const ShardId shard : worker.shards) {
      EXPECT_EQ(shard.value % 3, worker.worker);
      shards.push_back(shard.value);
    }
  }
  EXPECT_THAT(shards, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(workers, SizeIs(3));
}

// As after a restore into another world, where an epoch is ended by other owners than begin the next.
TEST_F(WorkerStream, IsMadeAnewWhereItsShardsChangeBetweenEpochs) {
  source_->on_worker = [&](const WorkerInfo& worker) {
    EXPECT_LT(instances_->live(), 2) << "the last has not ended";
    return make_(worker);
  };
  const StreamLoaderOptions options{.epochs = 3, .workers = 2};
  BatchPool pool(source_->fields(), {}, 6, options.read_ahead_bytes);
  ShardRun run{.places = std::vector<ShardProgress>(4), .first = 0};
  {
    StreamRing ring(*source_, pool, options, 8,
                    {.world = {.rank = 1, .size = 2},
                     .epoch = 0,
                     .run = run_from_start({{0}, {2}}),
                     .later = {{2}, {3}, {5}, {6}}});
    for (int ended = 0; ended < 3;) {
      ended += ring.wait().kind == FeedHead::Kind::epoch_end ? 1 : 0;
      ring.take(run);
    }
  }
  std::set<Numbers> told;
  for (const WorkerInfo& worker : instances_->told()) {
    EXPECT_EQ(worker.world, (World{.rank = 1, .size = 2}));
    Numbers shards;
    for (const ShardId shard : worker.shards) shards.push_back(shard.value);
    EXPECT_TRUE(told.insert(shards).second) << "made twice";
  }
  EXPECT_EQ(told, (std::set<Numbers>{{0}, {2}, {2, 5}, {3, 6}}));
  EXPECT_THAT(instances_->complaints(), IsEmpty());
}

TEST_F(WorkerStream, IsMadeThroughTransforms) {
  EXPECT_EQ(run(mixed(source_), 2), run(mixed(numbered(kLengths)), 2));
  expect_good(*instances_, 2);
}

TEST_F(WorkerStream, IsMadeThroughIndexedSources) {
  const auto indexed = as_stream(test::affine(instances_, counting(100)), 7);
  EXPECT_EQ(run(indexed, 3), run(as_stream(counting(100), 7), 3));
  expect_good(*instances_, 3);
}

TEST_F(WorkerStream, IsMadeForTheThreadThatReadsADispatch) {
  for (const int workers : {0, 1}) {
    for (const std::int64_t steps : {std::int64_t{3}, kEndless}) {
      const auto instances = std::make_shared<Instances>();
      {
        StreamLoader loader(Dispatch{.source = affine(instances, {50}), .shards = 4},
                            {.epochs = 2, .workers = workers});
        std::int64_t samples = 0;
        for (std::int64_t step = 0; step < steps; ++step) {
          const auto batch = loader.next();
          if (!batch) break;
          samples += batch->size();
        }
        EXPECT_EQ(samples, steps == kEndless ? 100 : 3 * 32 - 14);
        Snapshot snapshot;
        save(loader, snapshot);
      }
      expect_good(*instances, 1);
    }
  }
}

TEST_F(WorkerStream, OfOtherShardsFieldsOrCursorsIsRefused) {
  const auto refuses = [&](const Numbers& lengths, const std::vector<Field>& fields, std::int64_t numbers,
                           std::initializer_list<std::string> words) {
    source_->on_worker = [=](const WorkerInfo&) {
      auto other = std::make_unique<NumberedStream>(lengths);
      other->field_list = fields;
      other->numbers = numbers;
      return other;
    };
    for (const int workers : {0, 2}) {
      EXPECT_ERROR(run(source_, workers), callback, words);
    }
  };
  const auto& fields = source_->fields();
  refuses({1, 2}, fields, 2, {"make a source for worker", "7 shards", "2 shards", "for_worker()"});
  refuses(kLengths, {{.name = "y", .dtype = DType::int64, .shape = {2}}}, 2, {"for_worker() makes", "y"});
  refuses(kLengths, fields, 3, {"cursors of 2 numbers", "cursors of 3 numbers"});
}

TEST_F(WorkerStream, ThatCannotBeMadeIsTriedAgain) {
  for (const int workers : {0, 2}) {
    std::atomic<bool> fails = true;
    source_->on_worker = [&](const WorkerInfo& worker) {
      if (fails) throw Error(io, "no answer");
      return make_(worker);
    };
    StreamLoader loader(source_, {.global_batch_size = 60, .workers = workers});
    for (int i = 0; i < 2; ++i) {
      EXPECT_ERROR(loader.next(), io, {"no answer"});
    }
    fails = false;
    EXPECT_EQ((*loader.next()).size(), 54);
  }
}

TEST_F(WorkerStream, ThatCannotBeMadeIsNotReplacedByTheOneInCommon) {
  std::atomic<int> failed = 0;
  source_->on_worker = [&](const WorkerInfo& worker) {
    if (worker.worker == 1) {
      ++failed;
      throw Error(io, "no answer");
    }
    while (failed < 2 && instances_->complaints().empty()) std::this_thread::yield();
    return make_(worker);
  };
  EXPECT_ERROR(run(source_, 2), io, {"no answer"});
  EXPECT_THAT(instances_->complaints(), IsEmpty());
}

}  // namespace rota::test::worker_stream_test
