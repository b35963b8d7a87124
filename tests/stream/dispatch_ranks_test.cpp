// One rank reads, and all get what is theirs: the same batches at every world size, errors on all ranks at
// the same step, and no more read ahead than is allowed.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "stream/dispatched.hpp"
#include "test.hpp"

namespace rota::test::dispatch_ranks_test {

using test::Items;
using test::NumberedStream;
using test::take_step;

const mpi::Communicator& everyone() { return mpi_session().comm(); }
bool is_root() { return everyone().rank() == 0; }

std::shared_ptr<NumberedStream> numbered(std::int64_t length) {
  return std::make_shared<NumberedStream>(std::vector{length});
}

// On ranks other than 0 there is no source.
Dispatch of(std::shared_ptr<const StreamSource> source, std::int64_t shards = 16,
            Split split = Split::by_sample) {
  return {.source = is_root() ? std::move(source) : nullptr, .shards = shards, .rank_split = split};
}

struct Case {
  std::int64_t length;
  std::int64_t batch;
  std::int64_t shards;
  Split split;
  int workers;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t length : {0, 1, 2, 7, 40, 101}) {
    for (const std::int64_t batch : {1, 3, 8, 64}) {
      for (const std::int64_t shards : {1, 3, 16, 200}) {
        const int number = static_cast<int>(all.size());
        all.push_back(
            {length, batch, shards, number % 2 == 0 ? Split::by_sample : Split::by_shard, number / 2 % 2});
      }
    }
  }
  return all;
}

TEST(Dispatch, GivesEveryItemOnceInTheSameBatchesAtEveryWorldSize) {
  for (const Case& c : cases()) {
    StreamLoader loader(everyone(), of(numbered(c.length), c.shards, c.split),
                        {.global_batch_size = c.batch,
                         .epochs = 2,
                         .workers = c.workers,
                         .read_ahead_batches = 1 + c.length % 3});
    const std::int64_t steps = (c.length + c.batch - 1) / c.batch;
    std::int64_t step = 0;
    while (const auto taken = take_step(loader, everyone())) {
      const std::int64_t first = step % steps * c.batch;
      EXPECT_EQ(taken->start, (StreamPosition{.epoch = step / steps, .step = step}));
      EXPECT_EQ(taken->ranks, test::dealt(first, std::min(c.batch, c.length - first), c.shards, c.split,
                                          everyone().size()));
      ++step;
    }
    EXPECT_EQ(step, 2 * steps) << c.length << " items, batches of " << c.batch;
  }
}

TEST(Dispatch, OfNothingEndsAnEndlessRun) {
  StreamLoader loader(everyone(), of(numbered(0)), {.epochs = kEndless});
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(Dispatch, TellsAllRanksWhatTheSourceIs) {
  StreamLoader loader(everyone(), of(numbered(3), 7, Split::by_shard));
  EXPECT_EQ(loader.source().shards(), 7);
  EXPECT_EQ(loader.source().fields()[1].name, "text");
  EXPECT_THROW(static_cast<void>(loader.source().open({0}, 0, {})), Error);
  EXPECT_EQ(loader.owner({5}), 5 % everyone().size());
  EXPECT_THROW(static_cast<void>(loader.owner({7})), Error);
  EXPECT_NE(StreamLoader(everyone(), of(numbered(3), 8)).fingerprint(), loader.fingerprint());
  const StreamLoader by_sample(everyone(), of(numbered(3)));
  EXPECT_THROW(static_cast<void>(by_sample.owner({0})), Error);
}

std::string refusal(const Dispatch& dispatch) {
  try {
    const StreamLoader loader(everyone(), dispatch);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Dispatch, IsRefusedOnAllRanks) {
  EXPECT_THAT(refusal(of(nullptr)), HasSubstr("Dispatch::source is null on rank 0"));
  EXPECT_THAT(refusal(of(std::make_shared<NumberedStream>(std::vector<std::int64_t>{1, 2}))),
              HasSubstr("it has 2 shards, and what is read once has 1"));
  EXPECT_THAT(refusal(of(numbered(1), 0)), HasSubstr("shards is 0"));
  EXPECT_THAT(refusal(of(numbered(1), 3, Split::interleaved)),
              HasSubstr("must be one of by_sample, by_shard"));
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  EXPECT_THAT(refusal(of(numbered(1), is_root() ? 3 : 4)), HasSubstr("rank 0 has 3 shards"));
  EXPECT_THAT(refusal(of(numbered(1), 3, is_root() ? Split::by_shard : Split::by_sample)),
              HasSubstr("split by_shard; this rank has"));
}

TEST(Dispatch, OnOneRankAndASourceOnOthersIsRefusedOnAll) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const int dispatching : {0, everyone().size() - 1}) {
    try {
      if (everyone().rank() == dispatching) {
        const StreamLoader loader(everyone(), Dispatch{.source = numbered(3)});
      } else {
        const StreamLoader loader(everyone(), numbered(3));
      }
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_THAT(error.what(), HasSubstr("a Dispatch, which rank 0 alone reads"));
      EXPECT_THAT(error.what(), HasSubstr("a source that all ranks read"));
    }
  }
}

TEST(Dispatch, WorksOnWhatTransformsMakeOfTheSource) {
  const auto made = [] { return shuffle_buffer(test::two_of_three(numbered(50)), 8, 1); };
  StreamLoader loader(everyone(), of(made()), {.global_batch_size = 7});
  std::vector<std::int64_t> all;
  while (const auto batch = loader.next()) {
    Items mine;
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      mine.push_back(batch->tensor("x").as<std::int64_t>()[static_cast<std::size_t>(2 * i + 1)]);
    }
    for (const Items& items : test::gather(everyone(), mine))
      all.insert(all.end(), items.begin(), items.end());
  }
  std::vector<std::int64_t> expected;
  for (const auto& sample : test::read_all(*made(), {0})) expected.push_back(sample.first.input);
  EXPECT_THAT(all, ::testing::UnorderedElementsAreArray(expected));
}

// ---- errors ----

// Steps until the loader throws; what it says. Adds the items of each, sorted.
std::string steps_to_error(StreamLoader& loader, std::vector<Items>& taken) {
  try {
    while (const auto step = take_step(loader, everyone())) {
      Items& items = taken.emplace_back();
      for (const Items& rank : step->ranks) items.insert(items.end(), rank.begin(), rank.end());
      std::ranges::sort(items);
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Steps of four items each.
std::vector<Items> fours(std::int64_t items) {
  std::vector<Items> steps(static_cast<std::size_t>((items + 3) / 4));
  for (std::int64_t i = 0; i < items; ++i) steps[static_cast<std::size_t>(i / 4)].push_back(i);
  return steps;
}

TEST(Dispatch, AnErrorOfTheSourceReachesAllRanksAtTheSameStepAndIsTriedAgain) {
  for (const std::int64_t at : {0, 5, 8, 23}) {
    for (const int workers : {0, 1}) {
      std::atomic<bool> is_broken = true;
      const auto source = numbered(30);
      source->on_read = [&](StreamId id) {
        if (is_broken && id.input == at) throw Error(ErrorCode::io, "the line is dead");
      };
      StreamLoader loader(everyone(), of(source), {.global_batch_size = 4, .workers = workers});
      std::vector<Items> taken;
      for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_THAT(steps_to_error(loader, taken), HasSubstr("read shard 0 (file-0), epoch 0, behind its " +
                                                             std::to_string(at) + " samples so far"));
        EXPECT_EQ(std::ssize(taken), at / 4);
        EXPECT_EQ(loader.position().step, at / 4);
      }
      for (int chance = 0; chance < 100; ++chance) std::this_thread::yield();  // to try too early
      is_broken = false;
      EXPECT_EQ(steps_to_error(loader, taken), "nothing was thrown");
      EXPECT_EQ(taken, fours(30));
    }
  }
}

// Memory that is not there, on one rank.
TEST(Dispatch, AnErrorOfAnotherRankReachesAllAndNothingIsLost) {
  const int failing = everyone().size() - 1;
  std::atomic<bool> is_broken = false;
  Allocator allocator{
      .allocate = [&](std::size_t bytes) -> void* {
        if (is_broken) throw std::bad_alloc();
        return ::operator new (bytes, std::align_val_t{64});
      },
      .release = [](void* memory, std::size_t) { ::operator delete (memory, std::align_val_t{64}); }};
  const auto source = numbered(40);
  StreamLoader loader(everyone(), of(source), {.global_batch_size = 4, .allocator = allocator});
  std::vector<Items> taken;
  is_broken = everyone().rank() == failing;
  EXPECT_THAT(steps_to_error(loader, taken), HasSubstr("there is not enough memory"));
  is_broken = false;
  EXPECT_EQ(steps_to_error(loader, taken), "nothing was thrown");
  EXPECT_EQ(taken, fours(40));
}

TEST(Dispatch, ARankThatDoesNotComeIsNamedAndToldWhenItComesAfterAll) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  StreamLoader loader(everyone(), of(numbered(1000)),
                      {.global_batch_size = 4, .deadline = std::chrono::seconds(2)});
  const int missing = everyone().size() - 1;
  const auto expect_timeout = [&] {
    try {
      while (loader.next()) continue;
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(missing) + " did not arrive"));
    }
  };
  EXPECT_TRUE(loader.next());
  if (everyone().rank() != missing) {
    for (int attempt = 0; attempt < 2; ++attempt) expect_timeout();
  }
  mpi::agree(everyone(), "wait for the others", nullptr);
  if (everyone().rank() == missing) expect_timeout();
}

// A receiver waits for items, not in an operation of all ranks.
TEST(Dispatch, ARootThatDoesNotComeIsMissedByAll) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  StreamLoader loader(everyone(), of(numbered(1000)),
                      {.global_batch_size = 4, .deadline = std::chrono::seconds(1)});
  if (!is_root()) {
    try {
      while (loader.next()) continue;
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      EXPECT_THAT(error.what(), HasSubstr("rank 0 did not arrive"));
    }
  }
  mpi::agree(everyone(), "wait for the others", nullptr);
  if (is_root()) {
    EXPECT_THROW(static_cast<void>(loader.next()), Error);
  }
}

// ---- bounds ----

TEST(Dispatch, ReadsAsFarAheadAsTheBoundOfBatchesAndNoFurther) {
  for (const std::int64_t ahead : {1, 2, 5}) {
    std::atomic<std::int64_t> read = 0;
    const auto source = numbered(200);
    source->on_read = [&](StreamId) { ++read; };
    StreamLoader loader(everyone(), of(source), {.global_batch_size = 6, .read_ahead_batches = ahead});
    std::int64_t delivered = 0;
    while (take_step(loader, everyone())) {
      delivered = std::min<std::int64_t>(delivered + 6, 200);
      const std::int64_t bound = std::min<std::int64_t>(delivered + ahead * 6, 200);
      if (!is_root()) continue;
      while (read < bound) std::this_thread::yield();
      for (int chance = 0; chance < 100; ++chance) std::this_thread::yield();
      EXPECT_EQ(read, bound);
    }
    EXPECT_EQ(delivered, 200);
  }
}

// Items of 16 to 20 bytes and 8 for a length.
TEST(Dispatch, ReadsNoFurtherAheadThanTheBoundOfBytesButForTheNextBatch) {
  std::atomic<std::int64_t> read = 0;
  const auto source = numbered(200);
  source->on_read = [&](StreamId) { ++read; };
  StreamLoader loader(everyone(), of(source),
                      {.global_batch_size = 10, .read_ahead_batches = 100, .read_ahead_bytes = 400});
  std::int64_t delivered = 0;
  while (take_step(loader, everyone())) {
    delivered = std::min<std::int64_t>(delivered + 10, 200);
    for (int chance = 0; chance < 100; ++chance) std::this_thread::yield();
    EXPECT_LE(read, delivered + std::max(10, 400 / 24 + 1));
  }
  EXPECT_EQ(delivered, 200);
}

TEST(Dispatch, WithoutWorkersReadsNoMoreThanTheStepAsksFor) {
  std::atomic<std::int64_t> read = 0;
  const auto source = numbered(20);
  source->on_read = [&](StreamId) { ++read; };
  StreamLoader loader(everyone(), of(source), {.global_batch_size = 8, .workers = 0});
  for (const std::int64_t expected : {8, 16, 20}) {
    EXPECT_TRUE(loader.next());
    if (is_root()) {
      EXPECT_EQ(read, expected);
    }
  }
}

// ---- ends ----

/// Items of so many bytes each, without an end.
class Blobs : public StreamSource {
 public:
  explicit Blobs(std::int64_t bytes)
      : fields_{{.name = "fixed", .dtype = DType::uint8, .shape = {bytes}},
                {.name = "none", .dtype = DType::uint8, .shape = {0}},
                {.name = "ragged", .dtype = DType::uint8, .shape = {}, .ragged = true}} {}
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::int64_t shards() const override { return 1; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return 1; }
  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId, std::int64_t, const StreamCursor&) const override {
    struct Endless : ShardStream {
      bool next(StreamSample& out) override {
        std::ranges::fill(out.bytes(0), static_cast<std::byte>(count++));
        static_cast<void>(out.resize(2, 0));
        return true;
      }
      void cursor(StreamCursor& out) const override { out.numbers = {count}; }
      std::int64_t count = 0;
    };
    return std::make_unique<Endless>();
  }

 private:
  std::vector<Field> fields_;
};

// What is on its way then is seen by MPI_Finalize, at the end of this program.
TEST(Dispatch, IsLeftInTheMidstOfAnEpochWithoutWaiting) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1} << 10, std::int64_t{1} << 20}) {
    for (int steps = 0; steps < 3; ++steps) {
      StreamLoader loader(everyone(), of(std::make_shared<Blobs>(bytes)),
                          {.global_batch_size = everyone().size()});
      for (int k = 0; k < steps; ++k) {
        const auto batch = loader.next();
        EXPECT_EQ(batch->size(), 1);
        const StreamId id = batch->ids()[0];
        EXPECT_THAT(batch->bytes(0, 0), ::testing::Each(std::byte(16 * id.input + id.shard.value)));
        EXPECT_EQ(batch->bytes(2, 0).size(), 0U);
      }
    }
  }
}

}  // namespace rota::test::dispatch_ranks_test
