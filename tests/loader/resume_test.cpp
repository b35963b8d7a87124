#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::resume_test {

class Resume : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSamples = 100;

  Loader make() { return Loader(source_, options_); }

  void save_loader(const Loader& loader) { checkpoints_.save_all(loader.position().step, loader); }

  /// The ids of all batches that remain.
  static std::vector<std::int64_t> rest(Loader& loader) {
    std::vector<std::int64_t> ids;
    for (const Batch& batch : loader) {
      for (const SampleId id : batch.ids()) ids.push_back(id.value);
    }
    return ids;
  }

  /// What restore says of a loader made with other options, or for another source.
  template <typename Change>
  std::string refusal(ErrorCode code, Change change) {
    Loader saved = make();
    static_cast<void>(saved.next());
    save_loader(saved);
    change();
    Loader other = make();
    const Position before = other.position();
    try {
      restore(other, *checkpoints_.latest());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_EQ(other.position(), before);
      return error.what();
    }
    return "nothing was thrown";
  }

  test::TemporaryDirectory directory_;
  CheckpointDirectory checkpoints_{mpi::Communicator(), directory_.path()};
  std::shared_ptr<const Source> source_ = counting(kSamples);
  LoaderOptions options_{
      .global_batch_size = 7, .shards = 9, .seed = 3, .tail = Tail::partial, .epochs = 2, .workers = 1};
};

TEST_F(Resume, GoesOnExactlyFromAnyStepOnceOrTwice) {
  Loader whole = make();
  const auto all = rest(whole);
  Loader walker = make();
  for (std::size_t read = 0;;) {
    save_loader(walker);
    for (int time = 0; time < 2; ++time) {
      Loader resumed = make();
      const auto checkpoint = checkpoints_.latest();
      restore(resumed, *checkpoint);
      restore(resumed, *checkpoint);
      EXPECT_EQ(resumed.position(), walker.position());
      save_loader(resumed);  // right after a restore
      EXPECT_EQ(rest(resumed),
                std::vector<std::int64_t>(all.begin() + static_cast<std::ptrdiff_t>(read), all.end()));
    }
    const auto batch = walker.next();
    if (!batch) break;
    read += static_cast<std::size_t>(batch->size());
  }
}

TEST_F(Resume, TakesAnotherBatchSizeTailAndNumberOfWorkers) {
  Loader saved = make();
  std::vector<std::int64_t> seen;
  for (int k = 0; k < 4; ++k) {
    const auto batch = saved.next();  // which must outlive the ids that it lends
    for (const SampleId id : batch->ids()) seen.push_back(id.value);
  }
  save_loader(saved);
  options_.global_batch_size = 11;
  options_.tail = Tail::carry;
  options_.workers = 3;
  options_.epochs = 1;
  Loader resumed = make();
  restore(resumed, *checkpoints_.latest());
  const auto ids = rest(resumed);
  seen.insert(seen.end(), ids.begin(), ids.end());
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(std::ssize(seen), kSamples);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<std::int64_t>(i));
}

TEST_F(Resume, EndsAtOnceAfterTheLastEpoch) {
  Loader loader = make();
  rest(loader);
  save_loader(loader);
  Loader resumed = make();
  restore(resumed, *checkpoints_.latest());
  EXPECT_EQ(resumed.position().epoch, 2);
  EXPECT_FALSE(resumed.next());
}

TEST_F(Resume, SavesACursorForEveryShard) {
  Loader loader = make();
  for (int k = 0; k < 17; ++k) static_cast<void>(loader.next());
  save_loader(loader);
  const auto cursors = checkpoints_.latest()->read<std::int64_t>("loader/main/cursors");
  ASSERT_EQ(cursors.size(), 18U);
  std::int64_t consumed = 0;
  for (std::size_t s = 0; s < 9; ++s) {
    EXPECT_EQ(cursors[2 * s], loader.position().epoch);
    consumed += cursors[2 * s + 1];
  }
  EXPECT_EQ(consumed, loader.position().consumed);
}

TEST_F(Resume, KeepsSeveralLoadersApart) {
  Loader train = make();
  Loader valid = make();
  static_cast<void>(train.next());
  Snapshot snapshot;
  save(train, snapshot, "train");
  save(valid, snapshot, "valid");
  checkpoints_.save(1, snapshot);
  const auto checkpoint = checkpoints_.latest();
  restore(valid, *checkpoint, "train");
  EXPECT_EQ(valid.position(), train.position());
  EXPECT_THROW(restore(valid, *checkpoint), Error);
}

TEST_F(Resume, RefusesAnotherDataset) {
  EXPECT_THAT(refusal(ErrorCode::mismatch, [&] { source_ = counting(kSamples + 1); }),
              AllOf(HasSubstr("the dataset differs"), HasSubstr("100 samples"), HasSubstr("101 samples")));
}
TEST_F(Resume, RefusesOtherShards) {
  EXPECT_THAT(refusal(ErrorCode::mismatch, [&] { options_.shards = 10; }),
              HasSubstr("the number of shards differs: the checkpoint has 9, this loader has 10"));
}
TEST_F(Resume, RefusesOtherShardLengths) {
  EXPECT_THAT(
      refusal(ErrorCode::mismatch,
              [&] {
                source_ = counting(kSamples, std::vector<std::int64_t>{12, 12, 11, 11, 11, 11, 11, 11, 10});
              }),
      HasSubstr("the digest of the shards' lengths differs"));
}
TEST_F(Resume, RefusesAnotherInterleave) {
  EXPECT_THAT(refusal(ErrorCode::mismatch, [&] { options_.interleave = 4; }),
              HasSubstr("interleave differs: the checkpoint has 9, this loader has 4"));
}
TEST_F(Resume, RefusesAnotherSeed) {
  EXPECT_THAT(refusal(ErrorCode::mismatch, [&] { options_.seed = 4; }),
              HasSubstr("the seed differs: the checkpoint has 3, this loader has 4"));
}
TEST_F(Resume, RefusesAnotherShuffle) {
  EXPECT_THAT(refusal(ErrorCode::mismatch, [&] { options_.shuffle = Shuffle::within; }),
              HasSubstr("the shuffle differs: the checkpoint has global, this loader has within"));
}
TEST_F(Resume, RefusesAnotherBlockShape) {
  options_.shuffle = Shuffle::block;
  EXPECT_THAT(refusal(ErrorCode::mismatch, [&] { options_.block.blocks = 8; }),
              HasSubstr("block.blocks differs: the checkpoint has 16, this loader has 8"));
}

}  // namespace rota::test::resume_test
