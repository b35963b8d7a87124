// Streams through the real thing: all ranks take the same steps, whatever is in their shards, and worlds of
// every size take turns with a checkpoint on disk between them.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "stream/gathered.hpp"
#include "stream/stream_run.hpp"
#include "test.hpp"

namespace rota::test::stream_ranks_test {

using test::NumberedStream;

const mpi::Communicator& everyone() { return mpi_session().comm(); }

std::shared_ptr<NumberedStream> numbered(std::vector<std::int64_t> lengths) {
  return std::make_shared<NumberedStream>(std::move(lengths));
}

// One empty, one a hundred times the others, more than ranks and fewer.
const std::vector<std::vector<std::int64_t>> kLengths{
    {1, 100, 0, 1, 1, 1, 1}, {3}, {0, 5}, {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, {0, 0, 0}};

// What all ranks have of a step, the same on each.
struct Step {
  StreamPosition start;
  std::vector<std::int64_t> sizes;
};

std::optional<Step> take_step(StreamLoader& loader, test::SampleCounts& all) {
  const auto batch = loader.next();
  const auto has = mpi::gather(everyone(), batch ? 1 : 0);
  EXPECT_THAT(has, ::testing::Each(has[0]));
  if (!batch) return std::nullopt;
  test::gather(everyone(), *batch, all);
  return Step{.start = batch->start(), .sizes = mpi::gather(everyone(), batch->size())};
}

TEST(StreamRanks, TakeTheSameStepsAndSeeEverySampleOnce) {
  for (const auto& lengths : kLengths) {
    for (const std::int64_t batch : {1, 8}) {
      for (const bool knows : {true, false}) {
        const auto source = numbered(lengths);
        source->knows_lengths = knows;
        test::SampleCounts all;
        StreamLoader loader(everyone(), source,
                            {.global_batch_size = batch, .epochs = 2, .workers = everyone().rank() % 3});
        std::int64_t steps = 0;
        while (const auto step = take_step(loader, all)) {
          EXPECT_EQ(step->start.step, steps++);
          EXPECT_GT(*std::ranges::max_element(step->sizes), 0) << "an empty step";
          EXPECT_THAT(step->sizes, ::testing::Each(::testing::Le((batch - 1) / everyone().size() + 1)));
        }
        EXPECT_EQ(all, test::samples_of(*source, 2));
      }
    }
  }
}

TEST(StreamRanks, WithNothingLeftGetEmptyBatchesUntilTheLongestShardEnds) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  StreamLoader loader(everyone(), numbered({1, 100, 0, 1}), {.global_batch_size = 4 * everyone().size()});
  test::SampleCounts all;
  std::int64_t steps = 0;
  while (const auto step = take_step(loader, all)) {
    ++steps;
    if (steps > 1) {
      EXPECT_EQ(std::ranges::count(step->sizes, 0), everyone().size() - 1);
    }
  }
  EXPECT_EQ(steps, 25);
}

TEST(StreamRanks, AllThrowWhatAStreamOfOneOfThemThrowsAndTryAgain) {
  const auto source = numbered({6, 6, 6, 6, 6, 6});
  std::atomic<bool> is_broken = true;
  source->on_read = [&](StreamId id) {
    if (is_broken && id == StreamId{{0}, 4, 0}) throw Error(ErrorCode::io, "the disk is gone");
  };
  StreamLoader loader(everyone(), source, {.global_batch_size = 2 * everyone().size()});
  test::SampleCounts all;
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::string message;
    try {
      while (const auto batch = loader.next()) test::gather(everyone(), *batch, all);
    } catch (const Error& error) {
      message = error.what();
      EXPECT_EQ(error.code(), ErrorCode::io);
    }
    EXPECT_THAT(message, HasSubstr("read shard 0 (file-0), epoch 0, behind its 4 samples"));
    EXPECT_EQ(message.starts_with("rank 0: "), everyone().size() > 1);
  }
  is_broken = false;
  while (take_step(loader, all)) continue;
  EXPECT_EQ(all, test::samples_of(*source, 1));
}

TEST(StreamRanks, ThatHaveDifferentSourcesAreToldSo) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  try {
    const StreamLoader loader(everyone(), numbered({1, 2, 3, everyone().rank() == 1 ? 1 : 0}),
                              {.epochs = everyone().rank() == 1 ? 2 : 1});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("rank 1: make stream loaders: rank 0 has 4 shards"));
  }
}

template <typename Work>
void expect_timeout(Work work, int missing) {
  try {
    work();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(missing) + " did not arrive"));
  }
}

TEST(StreamRanks, GiveUpOneThatDoesNotComeAndNameItAndTellItWhenItComesAfterAll) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const int missing : {0, everyone().size() - 1}) {
    StreamLoader loader(everyone(), numbered(std::vector<std::int64_t>(20, 20)),
                        {.deadline = std::chrono::seconds(2)});
    const auto go_on = [&] {
      while (loader.next()) continue;
    };
    // Where one is late all the same, all throw, and none waits for those that have left.
    mpi::together(everyone(), "take a step", [&] { EXPECT_TRUE(loader.next()); });
    if (everyone().rank() != missing) {
      for (int attempt = 0; attempt < 2; ++attempt) expect_timeout(go_on, missing);
    }
    mpi::agree(everyone(), "wait for the others", nullptr);
    if (everyone().rank() == missing) expect_timeout(go_on, missing);
  }
}

TEST(StreamRanks, GiveUpOneThatDoesNotComeToGatherTheState) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const int missing = everyone().size() - 1;
  StreamLoader loader(everyone(), numbered({20, 20, 20}), {.deadline = std::chrono::seconds(1)});
  if (everyone().rank() != missing) {
    for (int attempt = 0; attempt < 2; ++attempt) expect_timeout([&] { (void)state(loader); }, missing);
  }
  mpi::agree(everyone(), "wait for the others", nullptr);
}

TEST(StreamRanks, HaveTenMinutesByDefault) {
  EXPECT_EQ(StreamLoaderOptions{}.deadline, std::chrono::minutes(10));
}

TEST(StreamRanks, LeaveALoaderInTheMidstOfAnEpochWithoutWaiting) {
  for (int steps = 0; steps < 4; ++steps) {
    StreamLoader loader(everyone(), numbered({30, 20, 10, 40}), {.global_batch_size = 8});
    for (int k = 0; k < steps; ++k) EXPECT_TRUE(loader.next());
  }
}

/// Worlds that take turns. All choices are the same on every rank.
class Chain {
 public:
  /// Without a directory, the state is handed on as a text.
  Chain(std::uint64_t seed, std::shared_ptr<const StreamSource> source, std::filesystem::path directory = {})
      : random_(seed), source_(std::move(source)), directory_(std::move(directory)) {}

  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  /// Some steps in a world of the first `size` ranks, from the newest checkpoint on; what they saw is added
  /// on rank 0, which is in every world. True at the end of the run.
  bool leg(int size, test::SampleCounts& all) {
    const int steps = draw(0, 6);
    StreamLoaderOptions options{.global_batch_size = draw(1, 12),
                                .epochs = 2,
                                .workers = draw(0, 2),
                                .read_ahead_batches = draw(1, 4)};
    const bool goes_on = draw(0, 1) == 0;
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(everyone().get(), everyone().rank() < size ? 0 : MPI_UNDEFINED, everyone().rank(), &part);
    std::int64_t is_over = 0;
    if (part != MPI_COMM_NULL) {
      is_over = run(mpi::Communicator(part), options, steps, goes_on, all) ? 1 : 0;
      MPI_Comm_free(&part);
    }
    mpi::max(everyone(), std::span(&is_over, 1));
    state_ = mpi::broadcast(everyone(), state_);
    return is_over != 0;
  }

 private:
  bool run(const mpi::Communicator& comm, StreamLoaderOptions options, int steps, bool goes_on,
           test::SampleCounts& all) {
    std::optional<CheckpointDirectory> checkpoints;
    if (!directory_.empty()) checkpoints.emplace(comm, directory_);
    StreamLoader loader(comm, source_, options);
    if (checkpoints) checkpoints->restore_all(loader);
    if (!state_.empty()) restore(loader, state_);
    bool is_over = false;
    for (int k = 0; k < steps && !is_over; ++k) {
      const auto batch = loader.next();
      if (batch) test::gather(comm, *batch, all);
      is_over = !batch;
    }
    if (checkpoints) {
      checkpoints->save_all(loader.position().step, loader);
    } else {
      state_ = state(loader);
      EXPECT_EQ(mpi::broadcast(comm, state_), state_) << "it is the same on all ranks";
    }
    if (goes_on) static_cast<void>(loader.next());  // what is not saved did not happen
    return is_over;
  }

  std::mt19937_64 random_;
  std::shared_ptr<const StreamSource> source_;
  std::filesystem::path directory_;
  std::string state_;
};

std::shared_ptr<const StreamSource> source_of(std::uint64_t seed) {
  const auto plain = numbered(kLengths[seed % (kLengths.size() - 1)]);
  plain->knows_lengths = seed % 3 != 0;
  if (seed % 4 == 0) return plain;
  if (seed % 4 == 1) return shuffle_buffer(plain, 4, seed);
  if (seed % 4 == 2) return test::up_to_three(shuffle_buffer(plain, 12, seed));
  return shuffle_buffer(test::up_to_three(test::two_of_three(plain)), 6, seed);
}

void expect_each_sample_once(bool has_checkpoints) {
  const int chains = everyone().size() > 4 ? 4 : 12;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(chains); ++seed) {
    std::unique_ptr<test::TemporaryDirectory> owner;
    if (has_checkpoints && everyone().rank() == 0) owner = std::make_unique<test::TemporaryDirectory>();
    Chain chain(seed, source_of(seed), mpi::broadcast(everyone(), owner ? owner->path().string() : ""));
    test::SampleCounts all;
    bool is_over = false;
    for (int legs = 0; !is_over && legs < 400; ++legs)
      is_over = chain.leg(chain.draw(1, everyone().size()), all);
    EXPECT_TRUE(is_over);
    if (everyone().rank() == 0) {
      EXPECT_EQ(all, test::samples_of(*source_of(seed), 2)) << "seed " << seed;
    }
  }
}

TEST(StreamRescale, AChainOfWorldsWithCheckpointsBetweenSeesEachSampleOnce) { expect_each_sample_once(true); }
TEST(StreamRescale, AChainOfWorldsWithTextsBetweenSeesEachSampleOnce) { expect_each_sample_once(false); }

TEST(StreamRanks, AllThrowWhatOneOfThemThrowsWhenTheStateIsGathered) {
  class Silent : public NumberedStream {
   public:
    using NumberedStream::NumberedStream;
    [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                        const StreamCursor& at) const override {
      if (is_broken && everyone().rank() == everyone().size() - 1) throw Error(ErrorCode::io, "no answer");
      return NumberedStream::remaining(shard, at);
    }
    bool is_broken = false;
  };
  const auto source = std::make_shared<Silent>(std::vector<std::int64_t>(20, 20));
  StreamLoader loader(everyone(), source, {.global_batch_size = 40});
  EXPECT_TRUE(loader.next());
  source->is_broken = true;
  EXPECT_THROW((void)state(loader), Error);
  source->is_broken = false;
  const std::string text = state(loader);
  EXPECT_EQ(mpi::broadcast(everyone(), text), text);
}

TEST(StreamRescale, SharesOutWhatRemains) {
  std::unique_ptr<test::TemporaryDirectory> owner;
  if (everyone().rank() == 0) owner = std::make_unique<test::TemporaryDirectory>();
  CheckpointDirectory checkpoints(everyone(),
                                  mpi::broadcast(everyone(), owner ? owner->path().string() : ""));
  const auto source = numbered({3, 3, 40, 50});
  {
    StreamLoader loader(everyone(), source, {.global_batch_size = 16 * everyone().size()});
    EXPECT_TRUE(loader.next());
    checkpoints.save_all(1, loader);
  }
  const auto checkpoint = checkpoints.latest();
  StreamLoader here(everyone(), source);
  restore(here, *checkpoint);
  if (everyone().size() == 2) {  // as before
    EXPECT_EQ(here.owner({3}), 0);
    EXPECT_EQ(here.owner({2}), 1);
  }
  const mpi::Communicator one;
  StreamLoader alone(one, source);
  restore(alone, *checkpoint);
  for (std::int64_t s = 0; s < 4; ++s) EXPECT_EQ(alone.owner({s}), 0);
  EXPECT_THROW(static_cast<void>(alone.owner({4})), Error);
}

TEST(StreamRanks, WithoutACommunicatorAreAnErrorUnlessTheProcessIsAlone) {
  const Dispatch dispatch{.source = numbered({10}), .shards = 2};
  const std::vector<std::function<StreamLoader()>> made{[&] { return StreamLoader(numbered({10})); },
                                                        [&] { return StreamLoader(dispatch); }};
  for (const auto& make : made) {
    try {
      make();
      EXPECT_EQ(everyone().size(), 1);
    } catch (const Error& error) {
      EXPECT_GT(everyone().size(), 1);
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("pass that of the ranks that share the data"));
      EXPECT_THAT(error.what(), HasSubstr("a default-made Communicator if every rank is to read"));
    }
  }
}

TEST(StreamRanks, ReadEverythingEachWithADefaultMadeCommunicator) {
  const mpi::Communicator alone;
  const StreamLoaderOptions options{.global_batch_size = 4};
  StreamLoader streams(alone, numbered({5, 5}), options);
  StreamLoader dispatched(alone, Dispatch{.source = numbered({10}), .shards = 2}, options);
  for (StreamLoader* loader : {&streams, &dispatched}) {
    EXPECT_EQ(loader->world().size, 1);
    std::int64_t samples = 0;
    while (const auto batch = loader->next()) samples += batch->size();
    EXPECT_EQ(samples, 10);
  }
}

}  // namespace rota::test::stream_ranks_test
