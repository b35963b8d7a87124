// What was skipped, in a checkpoint: there again at any world size, and not believed blindly.

#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::resume_skipped_test {

class ResumeSkipped : public ::testing::Test {
 protected:
  ResumeSkipped() { source_->corrupt = {0, 3, 11, 12, 13, 50, 77}; }

  [[nodiscard]] Loader make(OnBadSample policy, World world = {}) const {
    return Loader(source_,
                  {.global_batch_size = 10,
                   .shards = 1,
                   .shuffle = Shuffle::none,
                   .epochs = 2,
                   .bad_samples = {.policy = policy}},
                  world);
  }
  static void go(Loader& loader, int steps) {
    for (int k = 0; k < steps; ++k) EXPECT_TRUE(loader.next());
  }
  Checkpoint save_loader(const Loader& loader) {
    checkpoints_.save_all(loader.position().step, loader);
    return *checkpoints_.latest();
  }

  test::TemporaryDirectory directory_;
  CheckpointDirectory checkpoints_{mpi::Communicator(), directory_.path()};
  std::shared_ptr<ToldSource> source_ = faulty(100, true);
};

TEST_F(ResumeSkipped, GoesOnWithTheListAndTheCount) {
  Loader loader = make(OnBadSample::skip);
  go(loader, 7);
  Loader resumed = make(OnBadSample::skip);
  restore(resumed, save_loader(loader));
  EXPECT_THAT(resumed.skipped().samples, SizeIs(6));
  EXPECT_EQ(resumed.skipped().samples, loader.skipped().samples);
  EXPECT_EQ(resumed.skipped().count, 6);
  EXPECT_EQ(resumed.skipped().by_this_rank, 0);
  go(loader, 8);
  go(resumed, 8);
  EXPECT_EQ(resumed.skipped().samples, loader.skipped().samples);
  EXPECT_EQ(resumed.skipped().count, loader.skipped().count);
}

TEST_F(ResumeSkipped, CountsTowardsTheLimitWhatWasSkippedBefore) {
  Loader loader = make(OnBadSample::skip);
  go(loader, 7);
  const Checkpoint checkpoint = save_loader(loader);
  LoaderOptions options = loader.options();
  options.bad_samples.max_skipped = 6;
  Loader resumed(source_, options);
  restore(resumed, checkpoint);
  go(resumed, 1);  // skips the seventh
  EXPECT_THROW(resumed.next(), Error);
  options.bad_samples.max_skipped = 5;
  Loader stricter(source_, options);
  restore(stricter, checkpoint);
  EXPECT_THROW(stricter.next(), Error);
}

TEST_F(ResumeSkipped, DealsTheListOutToTheRanksOfAnyWorld) {
  Loader loader = make(OnBadSample::skip);
  go(loader, 8);
  const Checkpoint checkpoint = save_loader(loader);
  for (const int size : {1, 2, 3, 8, 20}) {
    std::vector<SkippedSample> all;
    for (int rank = 0; rank < size; ++rank) {
      Loader part = make(OnBadSample::skip, {.rank = rank, .size = size});
      restore(part, checkpoint);
      EXPECT_EQ(part.skipped().count, 7);
      all.insert(all.end(), part.skipped().samples.begin(), part.skipped().samples.end());
    }
    EXPECT_EQ(all, loader.skipped().samples);
  }
}

TEST_F(ResumeSkipped, IsHandedOnByLoadersThatSkipNothing) {
  Loader loader = make(OnBadSample::skip);
  go(loader, 8);
  Loader strict = make(OnBadSample::fail);
  restore(strict, save_loader(loader));
  EXPECT_EQ(strict.skipped().samples, loader.skipped().samples);
  Loader again = make(OnBadSample::skip);
  restore(again, save_loader(strict));
  EXPECT_EQ(again.skipped().samples, loader.skipped().samples);
  EXPECT_EQ(again.skipped().count, 7);
}

TEST_F(ResumeSkipped, TakesCheckpointsThatSayNothingOfIt) {
  Loader strict = make(OnBadSample::fail);
  const Checkpoint checkpoint = save_loader(strict);
  EXPECT_THAT(checkpoint.tensors(), SizeIs(1)) << "the cursors";
  EXPECT_THAT(describe_loader(checkpoint), Not(HasSubstr("skipped")));
  Loader loader = make(OnBadSample::skip);
  go(loader, 2);
  restore(loader, checkpoint);
  EXPECT_EQ(loader.skipped().count, 0);
  EXPECT_THAT(loader.skipped().samples, IsEmpty());
}

TEST_F(ResumeSkipped, IsToldByDescribeLoader) {
  Loader loader = make(OnBadSample::skip);
  go(loader, 8);
  EXPECT_THAT(describe_loader(save_loader(loader)), HasSubstr("bad samples skipped: 7"));
}

/// Checkpoints that say of skipped samples what cannot be.
class HostileSkips : public ResumeSkipped {
 protected:
  HostileSkips() { source_->corrupt.clear(); }
  using Numbers = std::vector<std::int64_t>;

  std::string refusal(const Numbers& counts, const Numbers& rows, const std::string& text) {
    Loader loader = make(OnBadSample::fail);
    go(loader, 3);
    Snapshot snapshot;
    save(loader, snapshot);
    snapshot.tensor("loader/main/skipped_counts", {}, std::ssize(counts), counts);
    snapshot.tensor("loader/main/skipped", {4}, std::ssize(rows) / 4, rows);
    snapshot.tensor("loader/main/skipped_text", DType::uint8, {}, std::ssize(text),
                    std::as_bytes(std::span(text)));
    checkpoints_.save(3, snapshot);
    Loader other = make(OnBadSample::skip);
    try {
      restore(other, *checkpoints_.latest());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      EXPECT_EQ(other.position(), Position{});
      return error.what();
    }
    return "nothing was thrown";
  }
};

TEST_F(HostileSkips, AreRefusedWithTheTensorAndTheReason) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refusal({2, 0}, {0, 99, 2, 1, 1, 0, 0, 1}, "abcd"), "nothing was thrown");
  EXPECT_THAT(refusal({-1, 2}, {}, ""), AllOf(HasSubstr("skipped_counts"), HasSubstr("cannot be")));
  EXPECT_THAT(refusal({kMost, 1}, {}, ""), HasSubstr("cannot be"));
  EXPECT_THAT(refusal({1}, {0, 1, 0, 0, 0, 2, 0, 0}, ""), HasSubstr("lists more than were counted"));
  EXPECT_THAT(refusal({1}, {-1, 1, 0, 0}, ""), HasSubstr("names a sample that is not"));
  EXPECT_THAT(refusal({1}, {0, 100, 0, 0}, ""), HasSubstr("names a sample that is not"));
  EXPECT_THAT(refusal({1}, {0, -1, 0, 0}, ""), HasSubstr("names a sample that is not"));
  EXPECT_THAT(refusal({1}, {0, 1, 3, 2}, "abcd"), HasSubstr("texts that are not"));
  EXPECT_THAT(refusal({1}, {0, 1, kMost, kMost}, "abcd"), HasSubstr("texts that are not"));
  EXPECT_THAT(refusal({1}, {0, 1, -1, 2}, "abcd"), HasSubstr("texts that are not"));
  EXPECT_THAT(refusal({1}, {0, 1, 2, 1}, "abcd"), HasSubstr("longer than what is listed"));
}

TEST_F(HostileSkips, OfAnotherTypeOrShapeOrMissingAreRefused) {
  const auto message = [&](const std::function<void(Snapshot&)>& add) -> std::string {
    Loader loader = make(OnBadSample::fail);
    Snapshot snapshot;
    save(loader, snapshot);
    add(snapshot);
    checkpoints_.save(0, snapshot);
    try {
      restore(loader, *checkpoints_.latest());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      return error.what();
    }
    return "nothing was thrown";
  };
  const Numbers numbers{0, 0, 0};
  const std::vector<double> reals{0, 0, 0};
  const auto name = "loader/main/skipped_counts";
  EXPECT_THAT(message([&](Snapshot& s) { s.tensor(name, {3}, 1, numbers); }), HasSubstr("type or shape"));
  EXPECT_THAT(message([&](Snapshot& s) { s.tensor(name, {}, 3, reals); }), HasSubstr("type or shape"));
  EXPECT_THAT(message([&](Snapshot& s) { s.tensor(name, {}, 3, numbers); }), HasSubstr("is missing"));
}

}  // namespace rota::test::resume_skipped_test
