// A dispatch in a checkpoint: what was read and not delivered is in it, so that worlds of every size take
// turns, over what can be opened again and over a pipe that cannot.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "stream/dispatched.hpp"
#include "test.hpp"

namespace rota::test::dispatch_resume_test {

using test::Items;
using test::NumberedStream;
using test::Pipe;
using test::take_step;

constexpr std::int64_t kShards = 5;

const mpi::Communicator& everyone() { return mpi_session().comm(); }
bool is_root() { return everyone().rank() == 0; }

std::shared_ptr<NumberedStream> numbered(std::int64_t length) {
  return std::make_shared<NumberedStream>(std::vector{length});
}

Dispatch of(std::shared_ptr<const StreamSource> source, Split split = Split::by_sample) {
  return {.source = is_root() ? std::move(source) : nullptr, .shards = kShards, .rank_split = split};
}

/// A directory that all ranks see, gone at the end.
class Shared {
 public:
  Shared() {
    if (is_root()) owner_ = std::make_unique<test::TemporaryDirectory>();
    path_ = mpi::broadcast(everyone(), owner_ ? owner_->path().string() : "");
  }
  ~Shared() { mpi::agree(everyone(), "leave a directory", nullptr); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::unique_ptr<test::TemporaryDirectory> owner_;
  std::filesystem::path path_;
};

/// What was delivered of each epoch, in the order of steps, and in that of the source inside of each.
using Delivered = std::map<std::int64_t, Items>;

void add(const test::DispatchedStep& step, Delivered& all) {
  Items items;
  for (const Items& rank : step.ranks) items.insert(items.end(), rank.begin(), rank.end());
  std::ranges::sort(items);
  Items& epoch = all[step.start.epoch];
  epoch.insert(epoch.end(), items.begin(), items.end());
}

Delivered whole(std::int64_t length, std::int64_t epochs) {
  Delivered all;
  for (std::int64_t i = 0; i < length * epochs; ++i) all[i / length].push_back(i % length);
  return all;
}

/// Worlds of the first so many ranks. All choices are the same on every rank.
class Chain {
 public:
  /// `open` is what each program opens anew. With `hands_on_text` the state is handed on as a text.
  Chain(std::uint64_t seed, std::function<std::shared_ptr<const StreamSource>()> open, std::int64_t epochs,
        bool hands_on_text = false)
      : random_(seed), open_(std::move(open)), epochs_(epochs), hands_on_text_(hands_on_text) {}

  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  /// `steps` steps from the newest checkpoint on, then a save, and `lost` steps that are not saved. True at
  /// the end of the run.
  bool leg(int size, int steps, int lost) {
    StreamLoaderOptions options{.global_batch_size = draw(1, 9),
                                .epochs = epochs_,
                                .workers = draw(0, 1),
                                .read_ahead_batches = draw(1, 4)};
    const Split split = draw(0, 1) == 0 ? Split::by_sample : Split::by_shard;
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(everyone().get(), everyone().rank() < size ? 0 : MPI_UNDEFINED, everyone().rank(), &part);
    std::int64_t is_over = 0;
    if (part != MPI_COMM_NULL) {
      is_over = run(mpi::Communicator(part), options, split, steps, lost) ? 1 : 0;
      MPI_Comm_free(&part);
    }
    mpi::max(everyone(), std::span(&is_over, 1));
    state_ = mpi::broadcast(everyone(), state_);
    return is_over != 0;
  }
  /// Of rank 0, which is in every world.
  [[nodiscard]] const Delivered& delivered() const { return all_; }

 private:
  bool run(const mpi::Communicator& comm, StreamLoaderOptions options, Split split, int steps, int lost) {
    CheckpointDirectory checkpoints(comm, directory_.path());
    StreamLoader loader(comm, of(open_(), split), options);
    checkpoints.restore_all(loader);
    if (!state_.empty()) restore(loader, state_);
    bool is_over = false;
    for (int k = 0; k < steps && !is_over; ++k) {
      const auto step = take_step(loader, comm);
      if (step) add(*step, all_);
      is_over = !step;
    }
    if (hands_on_text_) {
      state_ = state(loader);
      EXPECT_EQ(mpi::broadcast(comm, state_), state_) << "it is the same on all ranks";
    } else {
      checkpoints.save_all(loader.position().step, loader);
    }
    for (int k = 0; k < lost; ++k) static_cast<void>(loader.next());
    return is_over;
  }

  std::mt19937_64 random_;
  std::function<std::shared_ptr<const StreamSource>()> open_;
  std::int64_t epochs_;
  bool hands_on_text_;
  std::string state_;
  Shared directory_;
  Delivered all_;
};

TEST(DispatchResume, BehindEveryStepGoesOnAtAnotherWorldSize) {
  for (const std::int64_t length : {3, 17, 40}) {
    Chain chain(
        static_cast<std::uint64_t>(length), [=] { return numbered(length); }, 2);
    for (int leg = 0; leg < 200; ++leg) {
      if (chain.leg(chain.draw(1, everyone().size()), 1, leg % 2)) break;
    }
    if (is_root()) {
      EXPECT_EQ(chain.delivered(), whole(length, 2));
    }
  }
}

TEST(DispatchResume, AChainOfWorldsSeesEachItemOnce) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto open = [=] {
      const auto source = numbered(60);
      source->blob_bytes = seed % 2 == 0 ? 0 : 500;  // a long cursor is taken seldom
      return source;
    };
    Chain chain(seed, open, 2, seed >= 6);
    bool is_over = false;
    for (int leg = 0; leg < 200 && !is_over; ++leg) {
      const int steps = chain.draw(0, 6);
      is_over = chain.leg(chain.draw(1, everyone().size()), steps, chain.draw(0, 2));
    }
    EXPECT_TRUE(is_over);
    if (is_root()) {
      EXPECT_EQ(chain.delivered(), whole(60, 2)) << "seed " << seed;
    }
  }
}

TEST(DispatchResume, APipeLosesNothingWhereProgramsEndInOrder) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto gone = std::make_shared<std::int64_t>(0);
    const auto open = [=] {
      const auto pipe = std::make_shared<Pipe>(80, gone);
      pipe->blob_bytes = seed % 2 == 0 ? 0 : 500;
      return pipe;
    };
    Chain chain(seed, open, 1, seed >= 6);
    bool is_over = false;
    for (int leg = 0; leg < 200 && !is_over; ++leg) {
      const int steps = chain.draw(0, 6);
      is_over = chain.leg(chain.draw(1, everyone().size()), steps, 0);
    }
    EXPECT_TRUE(is_over);
    if (is_root()) {
      EXPECT_EQ(chain.delivered(), whole(80, 1)) << "seed " << seed;
    }
  }
}

TEST(DispatchResume, APipeThatIsToGoBackSaysSoOnAllRanks) {
  const Shared directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  const auto gone = std::make_shared<std::int64_t>(0);
  StreamLoader loader(everyone(), of(std::make_shared<Pipe>(80, gone)), {.global_batch_size = 3});
  checkpoints.save_all(0, loader);
  for (int k = 0; k < 9; ++k) EXPECT_TRUE(take_step(loader, everyone()));
  checkpoints.restore_all(loader);
  try {
    while (loader.next()) continue;
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot go to item"));
  }
}

// Between these are messages of items that are taken back.
TEST(DispatchResume, ALoaderInTheMidstOfReadingGoesBack) {
  const Shared directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  StreamLoader loader(everyone(), of(numbered(60)), {.global_batch_size = 4, .epochs = 2});
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(take_step(loader, everyone()));
  checkpoints.save_all(3, loader);
  for (int attempt = 0; attempt < 3; ++attempt) {
    Delivered rest;
    for (int k = 0; k < 7 * attempt; ++k) EXPECT_TRUE(take_step(loader, everyone()));
    const auto checkpoint = checkpoints.restore_all(loader);
    EXPECT_EQ(loader.position().step, 3);
    while (const auto step = take_step(loader, everyone())) add(*step, rest);
    Delivered expected = whole(60, 2);
    expected[0].erase(expected[0].begin(), expected[0].begin() + 12);
    EXPECT_EQ(rest, expected);
    checkpoints.restore_all(loader);
  }
}

// Whatever the others have done meanwhile.
TEST(DispatchResume, ARestoreThatFailsOnOneRankIsMendedByTheNext) {
  const Shared directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  for (const int failing : {0, everyone().size() - 1}) {
    StreamLoader loader(everyone(), of(numbered(60)), {.global_batch_size = 4});
    for (int k = 0; k < 3; ++k) EXPECT_TRUE(take_step(loader, everyone()));
    checkpoints.save_all(3, loader);
    EXPECT_TRUE(take_step(loader, everyone()));
    try {
      restore(loader, *checkpoints.latest(), everyone().rank() == failing ? "another" : "main");
      EXPECT_NE(everyone().rank(), failing);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
    }
    checkpoints.restore_all(loader);
    Delivered rest;
    while (const auto step = take_step(loader, everyone())) add(*step, rest);
    Delivered expected = whole(60, 1);
    expected[0].erase(expected[0].begin(), expected[0].begin() + 12);
    EXPECT_EQ(rest, expected);
  }
}

// Which of a pipe's items were read is then not to be known from its cursor.
TEST(DispatchResume, ASaveBehindAnErrorOpensTheSourceAnewOrFails) {
  const Shared directory;
  for (const bool is_pipe : {false, true}) {
    std::atomic<bool> is_broken = true;
    const auto open = [&] {
      std::shared_ptr<NumberedStream> source = numbered(40);
      if (is_pipe) source = std::make_shared<Pipe>(40, std::make_shared<std::int64_t>(0));
      source->blob_bytes = 3000;  // so that its cursor is of some items ago
      return filter(source, [&](std::int64_t, const StreamSample& sample) {
        if (is_broken && sample.id().input == 22) throw std::runtime_error("no");
        return true;
      });
    };
    CheckpointDirectory checkpoints(everyone(), directory.path() / (is_pipe ? "pipe" : "again"));
    const StreamLoaderOptions options{.global_batch_size = 4};
    StreamLoader loader(everyone(), of(open()), options);
    Delivered all;
    EXPECT_THROW(while (const auto step = take_step(loader, everyone())) add(*step, all), Error);
    if (is_pipe) {
      for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_THROW(checkpoints.save_all(5, loader), Error);
      }
      EXPECT_FALSE(checkpoints.latest());
      continue;
    }
    checkpoints.save_all(5, loader);
    is_broken = false;
    StreamLoader later(everyone(), of(open()), options);
    checkpoints.restore_all(later);
    while (const auto step = take_step(later, everyone())) add(*step, all);
    EXPECT_EQ(all, whole(40, 1));
  }
}

TEST(DispatchResume, ACursorThatCannotBeHadOnceIsAskedForAgain) {
  const Shared directory;
  for (const int workers : {0, 1}) {
    int asked = 0;
    const auto source = numbered(40);
    source->blob_bytes = 30'000;  // so that no other is taken while reading
    source->on_cursor = [&] {
      if (++asked == 2) throw Error(ErrorCode::io, "not now");  // the first is behind the first item
    };
    CheckpointDirectory checkpoints(everyone(), directory.path() / std::to_string(workers));
    StreamLoader loader(everyone(), of(source), {.global_batch_size = 4, .workers = workers});
    EXPECT_TRUE(take_step(loader, everyone()));
    EXPECT_THROW(checkpoints.save_all(1, loader), Error);
    checkpoints.save_all(1, loader);
    EXPECT_TRUE(checkpoints.latest());
  }
}

TEST(DispatchResume, ASaveStopsTheReadingUntilTheNextStep) {
  const Shared directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  std::atomic<std::int64_t> read = 0;
  const auto source = numbered(100);
  source->on_read = [&](StreamId) { ++read; };
  StreamLoader loader(everyone(), of(source), {.global_batch_size = 4, .read_ahead_batches = 8});
  EXPECT_TRUE(take_step(loader, everyone()));
  checkpoints.save_all(1, loader);
  const auto pending = checkpoints.latest()->tensor("loader/main/pending").rows();
  if (is_root()) {
    EXPECT_EQ(read, 4 + pending) << "all that was read is delivered or saved";
  }
  EXPECT_TRUE(take_step(loader, everyone()));
}

TEST(DispatchResume, SavesARowForEachShardAndEachItemInTheOrderOfShards) {
  const Shared directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  StreamLoader loader(everyone(), of(numbered(12)), {.global_batch_size = 7, .read_ahead_batches = 2});
  EXPECT_TRUE(take_step(loader, everyone()));
  while (is_root() && loader.stats().ready_batches == 0) continue;  // the rest of the epoch
  checkpoints.save_all(1, loader);
  const auto checkpoint = checkpoints.latest();
  const auto cursors = checkpoint->read<std::int64_t>("loader/main/cursors");
  const auto pending = checkpoint->read<std::int64_t>("loader/main/pending");
  EXPECT_EQ(checkpoint->tensor("loader/main/cursors").shape, (std::vector<std::int64_t>{kShards, 4}));
  EXPECT_EQ(checkpoint->tensor("loader/main/pending").shape, (std::vector<std::int64_t>{5, 4}));
  EXPECT_THAT(std::vector(cursors.begin(), cursors.begin() + 4), ::testing::ElementsAre(0, 2, 1, 24));
  EXPECT_THAT(std::vector(pending.begin(), pending.begin() + 8),
              ::testing::ElementsAre(0, 0, 2, 24, 0, 1, 2, 25));
}

TEST(DispatchResume, SavesItemsOfSeveralBatchesAndEpochsInTheOrderOfShards) {
  const Shared directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  StreamLoader loader(everyone(), of(numbered(12)),
                      {.global_batch_size = 3, .epochs = 2, .read_ahead_batches = 20});
  EXPECT_TRUE(take_step(loader, everyone()));
  while (is_root() && loader.stats().ready_batches < 3 + 4) continue;  // all that is left
  checkpoints.save_all(1, loader);
  const auto pending = checkpoints.latest()->read<std::int64_t>("loader/main/pending");
  std::vector<std::array<std::int64_t, 3>> rows;  // shard, epoch, position
  for (std::size_t i = 0; i + 3 < pending.size(); i += 4) {
    rows.push_back({pending[i + 1], pending[i], pending[i + 2]});
  }
  EXPECT_EQ(rows.size(), 9 + 12);
  EXPECT_TRUE(std::ranges::is_sorted(rows));
}

TEST(DispatchResume, RefusesAnotherSourceAndNamesBoth) {
  const Shared directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  checkpoints.save_all(0, StreamLoader(everyone(), of(numbered(12))));
  const auto refuses = [&](const std::shared_ptr<const StreamSource>& source, std::int64_t shards,
                           const char* why) {
    Dispatch dispatch = of(source);
    dispatch.shards = shards;
    StreamLoader other(everyone(), dispatch);
    try {
      checkpoints.restore_all(other);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
    EXPECT_TRUE(other.next()) << "it is as it was";
  };
  refuses(numbered(12), 6, "shards differs: the checkpoint has 5, this loader has 6");
  refuses(test::two_of_three(numbered(12)), kShards, "fingerprint differs");
  StreamLoader stream(everyone(), numbered(12));
  EXPECT_THROW(checkpoints.restore_all(stream), Error);
}

}  // namespace rota::test::dispatch_resume_test
