// A save of ranks whose loaders differ is refused, on all ranks, with what differs. A rank that saves alone
// saves what all have.

#include "loader/ranks.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test::save_ranks_test {

const LoaderOptions kOptions{.global_batch_size = 6, .shards = 5, .seed = 3};

struct Difference {
  std::function<void(Loader&)> make;  ///< on one rank alone
  std::string one;                    ///< what it has
  std::string all;                    ///< what the others have
};

std::vector<Difference> differences() {
  return {
      {[](Loader& loader) { (void)loader.next(); }, "its place at epoch 0, sample 12, step 2",
       "its place at epoch 0, sample 6, step 1"},
      {[](Loader& loader) { loader.seek({}); }, "its place at epoch 0, sample 0, step 0",
       "its place at epoch 0, sample 6, step 1"},
      {[](Loader& loader) { restore(loader, state(Loader(counting(40), kOptions, World{}))); },
       "its place at epoch 0, sample 0, step 0", "its place at epoch 0, sample 6, step 1"},
      {[](Loader& loader) { loader.set_global_batch_size(7); }, "global_batch_size 7", "global_batch_size 6"},
      {[](Loader& loader) {
         loader.rescale(World{0, 40});
       },
       "a world of 40", "a world of "}};
}

class DifferentRanks : public Test {
 protected:
  void SetUp() override {
    if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  }
  void expect_refused(const std::string& what, const std::function<void()>& save) {
    EXPECT_THAT(error_of(save), is_error(mismatch, {what, "give all ranks the same"}));
    EXPECT_FALSE(checkpoints_.latest());
  }

  SharedDirectory directory_;
  CheckpointDirectory checkpoints_{everyone(), directory_.path()};
};

TEST_F(DifferentRanks, AreNotSavedAndToldWhatDiffersAndAreSavedOnceItIsMended) {
  for (const Difference& difference : differences()) {
    Loader loader(everyone(), counting(40), kOptions);
    (void)loader.next();
    if (is_last()) difference.make(loader);
    const auto what = fmt::format("rank {}: save a checkpoint: rank 0 has loader/main: {}",
                                  everyone().size() - 1, difference.all);
    expect_refused(what, [&] { checkpoints_.save_all(1, loader); });
    expect_refused(difference.one, [&] {
      checkpoints_.save_all_async(1, loader);
      checkpoints_.wait();
    });
  }
  Loader loader(everyone(), counting(40), kOptions);
  if (is_root()) (void)loader.next();
  expect_refused("this rank has loader/main: its place at epoch 0, sample 0, step 0",
                 [&] { checkpoints_.save_all(1, loader); });
  if (!is_root()) (void)loader.next();
  checkpoints_.save_all(1, loader);
  EXPECT_EQ(checkpoints_.latest()->info().serial, 0);
}

TEST_F(DifferentRanks, OfAMixtureAreToldTheirWeights) {
  const Mixture mixture{.datasets = {{counting(40), 0.5}, {counting(30), 0.5}}};
  Loader loader(everyone(), mixture, kOptions);
  if (is_last()) loader.set_weights(std::array{0.25, 0.75});
  expect_refused("a mixture by weights 1:1 since sample 0", [&] { checkpoints_.save_all(1, loader); });
}

TEST_F(DifferentRanks, OfStreamsAreToldWhereTheyAre) {
  StreamLoader loader(everyone(), numbered(Numbers(40, 3)), {.global_batch_size = 10});
  const std::string text = state(loader);
  (void)loader.next();
  if (is_last()) restore(loader, text);
  expect_refused("loader/main: its place at epoch 0, step 1", [&] { checkpoints_.save_all(1, loader); });
}

TEST_F(DifferentRanks, MayLackABlobButNotAddOneThatRank0Lacks) {
  for (const bool is_root_s : {true, false}) {
    Snapshot snapshot;
    snapshot.blob("common", "x");
    if (is_root() == is_root_s) snapshot.blob("own", "y");
    const auto error = error_of([&] { checkpoints_.save(1, snapshot); });
    if (is_root_s) {
      EXPECT_FALSE(error);
      EXPECT_EQ(checkpoints_.latest()->blob("own"), "y");
    } else {
      EXPECT_THAT(error, is_error(invalid_argument,
                                  {"rank 1: save a checkpoint: this rank adds blob \"own\"", "on rank 0"}));
    }
  }
}

// ---- a rank that saves alone ----

TEST(RankAlone, SavesTheStateOfAllOfItsWorld) {
  const Communicator alone;
  const int ranks = 5;
  for (const bool is_mixture : {false, true}) {
    const auto make = [&](const World& world) {
      const LoaderOptions options{.global_batch_size = 6, .shards = 5, .bad_samples = kSkip};
      const Mixture mixture{.datasets = {{counting(40)}, {counting(30)}}};
      return is_mixture ? Loader(mixture, options, world) : Loader(counting(40), options, world);
    };
    const TemporaryDirectory directory;
    CheckpointDirectory checkpoints(alone, directory.path());
    Loader loader = make({0, ranks});
    for (int step = 0; step < 3; ++step) (void)loader.next();
    checkpoints.save_all(3, loader);
    Snapshot snapshot = checkpoints.new_snapshot();
    save(loader, snapshot);
    checkpoints.save(4, snapshot);
    for (const World world : {World{}, World{1, 3}, World{4, 5}}) {
      Loader other = make(world);
      checkpoints.restore_all(other);
      EXPECT_EQ(other.position(), loader.position());
      if (world.rank == 0) continue;
      EXPECT_ERROR(checkpoints.save_all(5, other), invalid_argument, {"rank 0 saves for all"});
    }
  }
}

TEST(RankAlone, IsRefusedWhereItWouldSaveItsShareOnly) {
  const Communicator alone;
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints(alone, directory.path());
  const Loader loader(counting(40), kOptions, World{0, 2});
  Snapshot snapshot;
  save(loader, snapshot);
  EXPECT_ERROR(checkpoints.save(1, snapshot), invalid_argument, {"one of 2 ranks", "new_snapshot()"});
  if (everyone().size() == 1) return;
  const StreamLoader streams(everyone(), numbered(Numbers(40, 3)));
  EXPECT_ERROR(checkpoints.save_all(1, streams), invalid_argument,
               {"stream loader", "give the directory their communicator"});
}

TEST(RankAlone, LeavesOutWhatOthersHaveSkipped) {
  const auto source = faulty(100, false);
  source->corrupt = {3, 50};
  const LoaderOptions options = in_order(10, 1, kSkip);
  const Communicator alone;
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints(alone, directory.path());
  Loader loader(source, options, World{0, 2});
  (void)loader.next();
  EXPECT_EQ(loader.skipped().count, 1);
  checkpoints.save_all(1, loader);
  Loader other(source, options, World{});
  checkpoints.restore_all(other);
  EXPECT_EQ(other.position(), loader.position());
  EXPECT_EQ(other.skipped().count, 0);
}

}  // namespace rota::test::save_ranks_test
