// A dispatch in a checkpoint: what was read and not delivered is in it, over what can be opened again and
// over a pipe that cannot. every_world_test.cpp has worlds that take turns.

#include "stream/ranks.hpp"

namespace rota::test::dispatch_resume_test {

constexpr std::int64_t kShards = 5;

class DispatchResume : public Test {
 protected:
  static StreamLoader make(std::shared_ptr<const StreamSource> source,
                           const StreamLoaderOptions& options = {}) {
    return {everyone(), dispatch_of(std::move(source), kShards), options};
  }
  /// A loader that has taken so many steps.
  static StreamLoader begun(int steps, std::shared_ptr<const StreamSource> source,
                            const StreamLoaderOptions& options) {
    StreamLoader loader = make(std::move(source), options);
    take_steps(loader, steps);
    return loader;
  }
  static Delivered rest_of(StreamLoader& loader, ItemRows mine = {}) {
    while (take_step(loader, mine)) continue;
    return delivered(mine);
  }

  SharedDirectory directory_;
  CheckpointDirectory checkpoints_{everyone(), directory_.path()};
};

TEST_F(DispatchResume, APipeThatIsToGoBackSaysSoOnAllRanks) {
  StreamLoader loader = make(pipe_of(80, std::make_shared<std::int64_t>(0)), {.global_batch_size = 3});
  checkpoints_.save_all(0, loader);
  take_steps(loader, 9);
  checkpoints_.restore_all(loader);
  EXPECT_ERROR(rest_of(loader), io, {"cannot go to item"});
}

// Between these are messages of items that are taken back.
TEST_F(DispatchResume, ALoaderInTheMidstOfReadingGoesBack) {
  StreamLoader loader = begun(3, numbered({60}), {.global_batch_size = 4, .epochs = 2});
  checkpoints_.save_all(3, loader);
  for (int attempt = 0; attempt < 3; ++attempt) {
    take_steps(loader, 7 * attempt);
    checkpoints_.restore_all(loader);
    EXPECT_EQ(loader.position().step, 3);
    EXPECT_EQ(rest_of(loader), whole(60, 2, 12));
    checkpoints_.restore_all(loader);
  }
}

// Whatever the others have done meanwhile.
TEST_F(DispatchResume, ARestoreThatFailsOnOneRankIsMendedByTheNext) {
  for (const int failing : {0, everyone().size() - 1}) {
    StreamLoader loader = begun(3, numbered({60}), {.global_batch_size = 4});
    checkpoints_.save_all(3, loader);
    take_steps(loader, 1);
    const bool fails = everyone().rank() == failing;
    const auto error = error_of([&] { restore(loader, *checkpoints_.latest(), fails ? "another" : "main"); });
    EXPECT_TRUE(error ? error->code() == not_found : !fails);
    checkpoints_.restore_all(loader);
    EXPECT_EQ(rest_of(loader), whole(60, 1, 12));
  }
}

// Which of a pipe's items were read is then not to be known from its cursor.
TEST_F(DispatchResume, ASaveBehindAnErrorOpensTheSourceAnewOrFails) {
  for (const bool is_pipe : {true, false}) {
    std::atomic<bool> is_broken = true;
    const auto make_filtered = [&] {
      const auto source = is_pipe ? pipe_of(40, std::make_shared<std::int64_t>(0)) : numbered({40});
      source->blob_bytes = 3000;  // so that its cursor is of some items ago
      const auto filtered = filter(source, [&](std::int64_t, const StreamSample& sample) {
        if (is_broken && sample.id().input == 22) throw std::runtime_error("no");
        return true;
      });
      return make(filtered, {.global_batch_size = 4});
    };
    StreamLoader loader = make_filtered();
    ItemRows mine;
    EXPECT_THROW(while (take_step(loader, mine)) continue, Error);
    if (is_pipe) {
      for (int attempt = 0; attempt < 2; ++attempt) EXPECT_THROW(checkpoints_.save_all(5, loader), Error);
      EXPECT_FALSE(checkpoints_.latest());
      continue;
    }
    checkpoints_.save_all(5, loader);
    is_broken = false;
    StreamLoader later = make_filtered();
    checkpoints_.restore_all(later);
    EXPECT_EQ(rest_of(later, mine), whole(40, 1));
  }
}

TEST_F(DispatchResume, ACursorThatCannotBeHadOnceIsAskedForAgain) {
  for (const int workers : {0, 1}) {
    int asked = 0;
    const auto source = numbered({40});
    source->blob_bytes = 30'000;  // so that no other is taken while reading
    source->on_cursor = [&] {
      if (++asked == 2) throw Error(io, "not now");  // the first is behind the first item
    };
    StreamLoader loader = begun(1, source, {.global_batch_size = 4, .workers = workers});
    EXPECT_THROW(checkpoints_.save_all(1 + workers, loader), Error);
    checkpoints_.save_all(1 + workers, loader);
    EXPECT_EQ(checkpoints_.latest()->info().step, 1 + workers);
  }
}

TEST_F(DispatchResume, SavesARowForEachShardAndEachItemInTheOrderOfShards) {
  StreamLoader loader = begun(1, numbered({12}), {.global_batch_size = 7, .read_ahead_batches = 2});
  while (is_root() && loader.stats().ready_batches == 0) continue;  // the rest of the epoch
  checkpoints_.save_all(1, loader);
  const auto checkpoint = checkpoints_.latest();
  const auto cursors = checkpoint->read<std::int64_t>("loader/main/cursors");
  const auto pending = checkpoint->read<std::int64_t>("loader/main/pending");
  EXPECT_THAT(checkpoint->tensor("loader/main/cursors").shape, ElementsAre(kShards, 4));
  EXPECT_THAT(checkpoint->tensor("loader/main/pending").shape, ElementsAre(5, 4));
  EXPECT_THAT(Numbers(cursors.begin(), cursors.begin() + 4), ElementsAre(0, 2, 1, 24));
  EXPECT_THAT(Numbers(pending.begin(), pending.begin() + 8), ElementsAre(0, 0, 2, 24, 0, 1, 2, 25));
}

TEST_F(DispatchResume, SavesItemsOfSeveralBatchesAndEpochsInTheOrderOfShards) {
  StreamLoader loader =
      begun(1, numbered({12}), {.global_batch_size = 3, .epochs = 2, .read_ahead_batches = 20});
  while (is_root() && loader.stats().ready_batches < 3 + 4) continue;  // all that is left
  checkpoints_.save_all(1, loader);
  const auto pending = checkpoints_.latest()->read<std::int64_t>("loader/main/pending");
  std::vector<std::array<std::int64_t, 3>> rows;  // shard, epoch, position
  for (std::size_t i = 0; i + 3 < pending.size(); i += 4) {
    rows.push_back({pending[i + 1], pending[i], pending[i + 2]});
  }
  EXPECT_EQ(rows.size(), 9 + 12);
  EXPECT_TRUE(std::ranges::is_sorted(rows));
}

TEST_F(DispatchResume, RefusesAnotherSourceAndNamesBoth) {
  checkpoints_.save_all(0, make(numbered({12})));
  const auto refuses = [&](std::shared_ptr<const StreamSource> source, std::int64_t shards, const char* why) {
    StreamLoader other(everyone(), dispatch_of(std::move(source), shards));
    EXPECT_ERROR(checkpoints_.restore_all(other), mismatch, {why});
    EXPECT_TRUE(other.next()) << "it is as it was";
  };
  refuses(numbered({12}), 6, "shards differs: the checkpoint has 5, this loader has 6");
  refuses(two_of_three(numbered({12})), kShards, "fingerprint differs");
  StreamLoader stream(everyone(), numbered({12}));
  EXPECT_THROW(checkpoints_.restore_all(stream), Error);
}

}  // namespace rota::test::dispatch_resume_test
