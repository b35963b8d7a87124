// What tensors take while batches are read ahead whose size is known only when they are made.

#include "loader/buffer_pool.hpp"
#include "source/told_source.hpp"

namespace rota::test::read_ahead_test {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kManyBatches = 200;  // so that bytes are what bounds
constexpr std::int64_t kRows = 64 << 10;    // of one byte, in each sample: 1 MiB in a batch
const Field kBytes{.name = "bytes", .dtype = DType::uint8, .shape = {}, .ragged = true};

/// Counts what an allocator gives, and refuses more than `most_at_once`.
class TensorMemory {
 public:
  explicit TensorMemory(std::int64_t most_at_once = 1024 * kMiB) : most_at_once_(most_at_once) {}
  Allocator allocator() {
    return {.allocate = [this](std::size_t bytes) { return take(static_cast<std::int64_t>(bytes)); },
            .release =
                [this](void* memory, std::size_t bytes) {
                  held -= static_cast<std::int64_t>(bytes);
                  ::operator delete(memory, kAlignment);
                }};
  }

  std::atomic<std::int64_t> asked = 0;
  std::atomic<std::int64_t> held = 0;
  std::atomic<std::int64_t> most = 0;
  std::atomic<std::int64_t> refused = 0;

 private:
  static constexpr std::align_val_t kAlignment{64};
  void* take(std::int64_t bytes) {
    if (bytes > most_at_once_) {
      ++refused;
      throw std::bad_alloc();
    }
    ++asked;
    const std::int64_t now = held += bytes;
    for (std::int64_t was = most; was < now && !most.compare_exchange_weak(was, now);) {
    }
    return ::operator new(static_cast<std::size_t>(bytes), kAlignment);
  }
  std::int64_t most_at_once_;
};

// As docs/tune.md says.
std::int64_t most_for(std::int64_t ahead, std::int64_t batch) { return (ahead + 5 * batch) * 5 / 4 + kMiB; }

// Until the other workers have no more to do, or have done far too much.
void wait_for_others(const std::atomic<std::int64_t>& samples) {
  for (std::int64_t before = -1; before != samples && samples < kManyBatches * kBatch / 4;) {
    before = samples;
    std::this_thread::sleep_for(50ms);
  }
}

/// Reads ahead, up to 4 MiB, with `samples` counting what is transformed.
class OfUnknownSize : public TestWithParam<int> {
 protected:
  static constexpr std::int64_t kAhead = 4 * kMiB;
  LoaderOptions options() {
    return {.global_batch_size = kBatch,
            .shuffle = Shuffle::none,
            .workers = GetParam(),
            .read_ahead_batches = kManyBatches,
            .read_ahead_bytes = kAhead,
            .allocator = memory_.allocator()};
  }
  Transform of_slow_start() {
    return {.apply =
                [&](const TransformContext& context, const SampleView&, SampleOutput& out) {
                  if (context.id.value == 0) wait_for_others(samples_);
                  ++samples_;
                  out.resize(0, kRows);
                },
            .fields = {kBytes}};
  }
  void expect_bounded(const LoaderOptions& how) const {
    Loader loader(counting(2 * kManyBatches * kBatch), how);
    loader.warm_up();
    EXPECT_GE(loader.stats().ready_batches, 2);
    for (int step = 0; step < 10; ++step) (void)loader.next();
    EXPECT_LE(memory_.most, most_for(kAhead, kMiB));
  }
  TensorMemory memory_;
  std::atomic<std::int64_t> samples_ = 0;
};

TEST_P(OfUnknownSize, BatchesOfATransformAreNotReadAheadBeforeOneIsMade) {
  LoaderOptions how = options();
  how.transform = of_slow_start();
  expect_bounded(how);
}

TEST_P(OfUnknownSize, BatchesOfACollateAreNotReadAheadBeforeOneIsMade) {
  LoaderOptions how = options();
  how.transform = {.apply = [&](const TransformContext&, const SampleView&, SampleOutput&) { ++samples_; }};
  how.collate = {.apply =
                     [&](const Batch& in, BatchOutput& out) {
                       if (in.start().step == 0) wait_for_others(samples_);
                       out.resize(0, kRows);
                     },
                 .fields = {kBytes}};
  expect_bounded(how);
}

TEST_P(OfUnknownSize, LargerBatchesThanAnyBeforeAreNotReadAhead) {
  LoaderOptions how = options();
  how.global_batch_size = 1;
  how.transform = of_slow_start();
  Loader loader(counting(2 * kManyBatches * kBatch), how);
  loader.warm_up();
  loader.set_global_batch_size(kBatch);
  loader.warm_up();
  for (int step = 0; step < 10; ++step) (void)loader.next();
  EXPECT_LE(memory_.most, most_for(kAhead, kMiB));
}

INSTANTIATE_TEST_SUITE_P(Workers, OfUnknownSize, Values(1, 2, 3));

// Also where each sample asks for twice the rows first.
TEST(ReadAhead, TakesNoMoreForRowsOfATransformThanForOthers) {
  constexpr std::int64_t kAhead = 32 * kMiB;
  constexpr std::int64_t kSample = 72'000;
  for (const int workers : {1, 3}) {
    for (const std::int64_t asked : {kSample, 2 * kSample}) {
      TensorMemory memory;
      Loader loader(counting(100 * kBatch),
                    {.global_batch_size = kBatch,
                     .workers = workers,
                     .read_ahead_batches = kManyBatches,
                     .read_ahead_bytes = kAhead,
                     .transform = {.apply =
                                       [&](const TransformContext&, const SampleView&, SampleOutput& out) {
                                         out.resize(0, asked);
                                         out.resize(0, kSample);
                                       },
                                   .fields = {kBytes}},
                     .allocator = memory.allocator()});
      loader.warm_up();
      EXPECT_GE(loader.stats().ready_batches, 20);
      while (const auto batch = loader.next())
        EXPECT_EQ(std::ssize(batch->tensor(0).bytes), kBatch * kSample);
      EXPECT_LE(memory.most, most_for(kAhead, kBatch * asked)) << workers << " workers";
    }
  }
}

TEST(ReadAhead, AsksOnceForRowsThatAreRefused) {
  constexpr std::int64_t kEpochs = 20;
  const auto apply = [](const TransformContext& context, const SampleView&, SampleOutput& out) {
    if (context.id.value == 1) {
      EXPECT_THROW(out.resize(0, std::int64_t{1} << 40), Error);
      EXPECT_THAT(out.bytes(0), IsEmpty());
    }
    out.resize(0, 1000);
  };
  for (const int workers : {0, 1, 2}) {
    TensorMemory memory(16 * kMiB);
    Loader loader(counting(4 * kBatch), {.global_batch_size = kBatch,
                                         .epochs = kEpochs,
                                         .workers = workers,
                                         .transform = {.apply = apply, .fields = {kBytes}},
                                         .allocator = memory.allocator()});
    while (const auto batch = loader.next()) EXPECT_EQ(std::ssize(batch->tensor(0).bytes), kBatch * 1000);
    EXPECT_EQ(memory.refused, kEpochs) << workers << " workers";
  }
}

TEST(TensorsOfALoader, UseTheirMemoryAgainAndReturnAllOfIt) {
  TensorMemory memory;
  {
    Batch survivor;
    {
      Loader loader(
          counting(10'000),
          {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 3, .allocator = memory.allocator()});
      while (auto batch = loader.next()) survivor = std::move(*batch);
      // Two fields, ring + one at hand + one survivor, and once more where one grew.
      EXPECT_LE(memory.asked, 2 * 5 * 2);
    }
    const auto x = survivor.tensor("x").as<std::int64_t>();
    for (std::size_t i = 0; i < survivor.ids().size(); ++i) {
      const std::int64_t id = survivor.ids()[i].value;
      EXPECT_EQ(x[2 * i], id);
      EXPECT_THAT(survivor.bytes(1, static_cast<std::int64_t>(i)),
                  AllOf(SizeIs(id % 7), Each(static_cast<std::byte>(id))));
    }
  }
  EXPECT_EQ(memory.held, 0);
}

TEST(BufferPool, KeepsNoMoreAfterMemoryWasRefused) {
  TensorMemory memory(16 * kMiB);
  BufferPool pool(memory.allocator(), 0);
  std::vector<Buffer> buffers(8);
  for (Buffer& buffer : buffers) buffer = pool.take(1 << 20);
  EXPECT_THROW((void)pool.take(std::size_t{1} << 40), Error);
  for (Buffer& buffer : buffers) pool.give_back(std::move(buffer));
  EXPECT_LE(memory.held, 5 * kMiB);  // four of them
}

}  // namespace rota::test::read_ahead_test
