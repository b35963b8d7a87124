// Streams that make an instance for each worker.

#include "loader/affine_source.hpp"
#include "source/reading.hpp"
#include "stream/numbered_stream.hpp"
#include "stream/ring.hpp"
#include "test.hpp"

namespace rota::test::worker_stream_test {

using test::error_of;
using test::InstanceOfOne;
using test::Instances;
using test::is_error;
using test::NumberedStream;

/// A stream of an instance, read by its thread alone.
class OwnShard : public ShardStream {
 public:
  OwnShard(std::unique_ptr<ShardStream> inner, const InstanceOfOne& one)
      : inner_(std::move(inner)), one_(one) {}
  ~OwnShard() override { one_.look("closed"); }
  OwnShard(const OwnShard&) = delete;
  OwnShard& operator=(const OwnShard&) = delete;
  bool next(StreamSample& out) override {
    one_.look("read");
    return inner_->next(out);
  }
  void cursor(StreamCursor& out) const override {
    one_.look("asked for its cursor");
    inner_->cursor(out);
  }

 private:
  std::unique_ptr<ShardStream> inner_;
  const InstanceOfOne& one_;
};

/// A NumberedStream that is opened through instances alone.
class AffineStream : public NumberedStream {
 public:
  explicit AffineStream(const std::vector<std::int64_t>& lengths)
      : NumberedStream(lengths), lengths_(lengths) {}
  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    instances->complain("opened in common");
    return NumberedStream::open(shard, epoch, cursor);
  }
  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    if (on_make) on_make(worker);
    if (other) return other();
    return std::make_unique<Own>(lengths_, instances, worker);
  }

  std::shared_ptr<Instances> instances = std::make_shared<Instances>();
  std::function<void(const WorkerInfo&)> on_make;
  std::function<std::unique_ptr<const StreamSource>()> other;  // what is made in place of instances

 private:
  class Own : public NumberedStream {
   public:
    Own(const std::vector<std::int64_t>& lengths, std::shared_ptr<Instances> all, const WorkerInfo& worker)
        : NumberedStream(lengths), one_(std::move(all), worker) {}
    [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                    const StreamCursor& cursor) const override {
      one_.look("opened", shard);
      return std::make_unique<OwnShard>(NumberedStream::open(shard, epoch, cursor), one_);
    }

   private:
    InstanceOfOne one_;
  };
  std::vector<std::int64_t> lengths_;
};

const std::vector<std::int64_t> kLengths = {9, 0, 20, 3, 1, 14, 7};

std::vector<std::vector<test::Seen>> run(std::shared_ptr<const StreamSource> source, int workers,
                                         std::int64_t steps = kEndless) {
  StreamLoader loader(std::move(source), {.global_batch_size = 5, .epochs = 3, .workers = workers});
  std::vector<std::vector<test::Seen>> all;
  for (; steps > 0; --steps) {
    const auto batch = loader.next();
    if (!batch) break;
    all.push_back(test::seen(*batch));
  }
  return all;
}

TEST(WorkerStream, IsMadeOnceForEachWorkerAndUsedByItsThreadAlone) {
  for (const int workers : {0, 1, 2, 3}) {
    for (const std::int64_t steps : {std::int64_t{4}, kEndless}) {
      const auto source = std::make_shared<AffineStream>(kLengths);
      EXPECT_EQ(run(source, workers, steps), run(std::make_shared<NumberedStream>(kLengths), workers, steps));
      const auto told = source->instances->told();
      EXPECT_THAT(told, SizeIs(std::max(workers, 1)));
      EXPECT_THAT(source->instances->complaints(), IsEmpty());
      EXPECT_EQ(source->instances->live(), 0);
    }
  }
}

TEST(WorkerStream, IsToldItsPlaceAndItsShards) {
  const auto source = std::make_shared<AffineStream>(kLengths);
  run(source, 3);
  std::vector<int> times(kLengths.size());
  std::set<int> workers;
  for (const WorkerInfo& worker : source->instances->told()) {
    EXPECT_EQ(worker.workers, 3);
    EXPECT_EQ(worker.world, World());
    workers.insert(worker.worker);
    for (const ShardId shard : worker.shards) {
      EXPECT_EQ(shard.value % 3, worker.worker);
      ++times[static_cast<std::size_t>(shard.value)];
    }
  }
  EXPECT_THAT(times, Each(1));
  EXPECT_THAT(workers, SizeIs(3));
}

// As after a restore into another world, where an epoch is ended by other owners than begin the next.
TEST(WorkerStream, IsMadeAnewWhereItsShardsChangeBetweenEpochs) {
  AffineStream source(kLengths);
  source.on_make = [&](const WorkerInfo&) {
    EXPECT_LT(source.instances->live(), 2) << "the last has not ended";
  };
  const StreamLoaderOptions options{.epochs = 3, .workers = 2};
  internal::StreamBatchPool pool(source.fields(), {}, 6, options.read_ahead_bytes);
  {
    internal::StreamRing ring(source, pool, options, 8,
                              {.world = {.rank = 1, .size = 2},
                               .epoch = 0,
                               .places = {{.shard = {0}, .cursor = {}}, {.shard = {2}, .cursor = {}}},
                               .first = 0,
                               .later = {{2}, {3}, {5}, {6}}});
    for (int ended = 0; ended < 3;) {
      ended += ring.wait().kind == internal::FeedHead::Kind::epoch_end ? 1 : 0;
      ring.take();
    }
  }
  std::set<std::vector<std::int64_t>> told;
  for (const WorkerInfo& worker : source.instances->told()) {
    EXPECT_EQ(worker.world, (World{.rank = 1, .size = 2}));
    std::vector<std::int64_t> shards;
    for (const ShardId shard : worker.shards) shards.push_back(shard.value);
    EXPECT_TRUE(told.insert(shards).second) << "made twice";
  }
  EXPECT_EQ(told, (std::set<std::vector<std::int64_t>>{{0}, {2}, {2, 5}, {3, 6}}));
  EXPECT_THAT(source.instances->complaints(), IsEmpty());
}

TEST(WorkerStream, IsMadeThroughTransforms) {
  const auto transformed = [](const std::shared_ptr<const StreamSource>& source) {
    return shuffle_buffer(test::up_to_three(test::two_of_three(source)), 4, 9);
  };
  const auto affine = std::make_shared<AffineStream>(kLengths);
  EXPECT_EQ(run(transformed(affine), 2), run(transformed(std::make_shared<NumberedStream>(kLengths)), 2));
  EXPECT_THAT(affine->instances->told(), SizeIs(2));
  EXPECT_THAT(affine->instances->complaints(), IsEmpty());
}

TEST(WorkerStream, IsMadeThroughIndexedSources) {
  const auto affine = std::make_shared<test::AffineSource>(100);
  const auto plain = counting(100);
  EXPECT_EQ(run(as_stream(affine, 7), 3), run(as_stream(plain, 7), 3));
  EXPECT_THAT(affine->instances->told(), SizeIs(3));
  EXPECT_THAT(affine->instances->complaints(), IsEmpty());
  EXPECT_EQ(affine->instances->live(), 0);
}

TEST(WorkerStream, IsMadeForTheThreadThatReadsADispatch) {
  for (const int workers : {0, 1}) {
    for (const std::int64_t steps : {std::int64_t{3}, kEndless}) {
      const auto source = std::make_shared<AffineStream>(std::vector<std::int64_t>{50});
      {
        StreamLoader loader(Dispatch{.source = source, .shards = 4}, {.epochs = 2, .workers = workers});
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
      EXPECT_THAT(source->instances->told(), SizeIs(1));
      EXPECT_THAT(source->instances->complaints(), IsEmpty());
      EXPECT_EQ(source->instances->live(), 0);
    }
  }
}

TEST(WorkerStream, OfOtherShardsIsRefused) {
  for (const int workers : {0, 2}) {
    const auto source = std::make_shared<AffineStream>(kLengths);
    source->other = [] { return std::make_unique<NumberedStream>(std::vector<std::int64_t>{1, 2}); };
    EXPECT_THAT(
        error_of([&] { run(source, workers); }),
        is_error(ErrorCode::callback, {"make a source for worker", "7 shards", "2 shards", "for_worker()"}));
  }
}

TEST(WorkerStream, OfOtherFieldsOrCursorsIsRefused) {
  struct OtherFields : NumberedStream {
    OtherFields() : NumberedStream(kLengths) {}
    [[nodiscard]] const std::vector<Field>& fields() const override { return one; }
    std::vector<Field> one{{.name = "y", .dtype = DType::int64, .shape = {2}}};
  };
  struct OtherCursors : NumberedStream {
    OtherCursors() : NumberedStream(kLengths) {}
    [[nodiscard]] std::int64_t cursor_numbers() const override { return 3; }
  };
  const auto source = std::make_shared<AffineStream>(kLengths);
  source->other = [] { return std::make_unique<OtherFields>(); };
  EXPECT_THAT(error_of([&] { run(source, 2); }), is_error(ErrorCode::callback, {"for_worker() makes", "y"}));
  source->other = [] { return std::make_unique<OtherCursors>(); };
  EXPECT_THAT(error_of([&] { run(source, 2); }),
              is_error(ErrorCode::callback, {"cursors of 2 numbers", "cursors of 3 numbers"}));
}

TEST(WorkerStream, ThatCannotBeMadeIsTriedAgain) {
  for (const int workers : {0, 2}) {
    const auto source = std::make_shared<AffineStream>(kLengths);
    std::atomic<bool> fails = true;
    source->on_make = [&](const WorkerInfo&) {
      if (fails) throw Error(ErrorCode::io, "no answer");
    };
    StreamLoader loader(source, {.global_batch_size = 60, .workers = workers});
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(error_of([&] { loader.next(); }), is_error(ErrorCode::io, {"no answer"}));
    }
    fails = false;
    EXPECT_EQ((*loader.next()).size(), 54);
  }
}

TEST(WorkerStream, ThatCannotBeMadeIsNotReplacedByTheOneInCommon) {
  const auto source = std::make_shared<AffineStream>(kLengths);
  std::atomic<int> failed = 0;
  source->on_make = [&](const WorkerInfo& worker) {
    if (worker.worker == 1) {
      ++failed;
      throw Error(ErrorCode::io, "no answer");
    }
    while (failed < 2 && source->instances->complaints().empty()) std::this_thread::yield();
  };
  EXPECT_THAT(error_of([&] { run(source, 2); }), is_error(ErrorCode::io, {"no answer"}));
  EXPECT_THAT(source->instances->complaints(), IsEmpty());
}

}  // namespace rota::test::worker_stream_test
