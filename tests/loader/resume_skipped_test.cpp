// What was skipped, in a checkpoint: there again at any world size, and not believed blindly.

#include "loader/course.hpp"

namespace rota::test::resume_skipped_test {

class ResumeSkipped : public Test {
 protected:
  ResumeSkipped() { source_->corrupt = {0, 3, 11, 12, 13, 50, 77}; }

  Loader make(BadSamples::Policy policy, World world = {}) const {
    LoaderOptions options = in_order(10, 1, {.policy = policy});
    options.epochs = 2;
    return Loader(source_, options, world);
  }
  static void go(Loader& loader, int steps) {
    for (int k = 0; k < steps; ++k) EXPECT_TRUE(loader.next());
  }
  Checkpoint save_loader(const Loader& loader) {
    checkpoints_->save_all(loader.position().step, loader);
    return *checkpoints_->latest();
  }

  Checkpoints checkpoints_;
  std::shared_ptr<ToldSource> source_ = faulty(100, true);
};

TEST_F(ResumeSkipped, GoesOnWithTheListAndTheCount) {
  Loader loader = make(BadSamples::Policy::skip);
  go(loader, 7);
  Loader resumed = make(BadSamples::Policy::skip);
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
  Loader loader = make(BadSamples::Policy::skip);
  go(loader, 7);
  const Checkpoint checkpoint = save_loader(loader);
  LoaderOptions options = loader.options();
  options.bad_samples.max_skipped = 6;
  Loader resumed(source_, options);
  restore(resumed, checkpoint);
  go(resumed, 1);  // skips the seventh
  EXPECT_THROW(static_cast<void>(resumed.next()), Error);
  options.bad_samples.max_skipped = 5;
  Loader stricter(source_, options);
  restore(stricter, checkpoint);
  EXPECT_THROW(static_cast<void>(stricter.next()), Error);
}

TEST_F(ResumeSkipped, DealsTheListOutToTheRanksOfAnyWorld) {
  Loader loader = make(BadSamples::Policy::skip);
  go(loader, 8);
  const Checkpoint checkpoint = save_loader(loader);
  for (const int size : {1, 2, 3, 8, 20}) {
    std::vector<SkippedSamples::Sample> all;
    for (int rank = 0; rank < size; ++rank) {
      Loader part = make(BadSamples::Policy::skip, {.rank = rank, .size = size});
      restore(part, checkpoint);
      EXPECT_EQ(part.skipped().count, 7);
      all.insert(all.end(), part.skipped().samples.begin(), part.skipped().samples.end());
    }
    EXPECT_EQ(all, loader.skipped().samples);
  }
}

TEST_F(ResumeSkipped, IsHandedOnByLoadersThatSkipNothing) {
  Loader loader = make(BadSamples::Policy::skip);
  go(loader, 8);
  Loader strict = make(BadSamples::Policy::fail);
  restore(strict, save_loader(loader));
  EXPECT_EQ(strict.skipped().samples, loader.skipped().samples);
  Loader again = make(BadSamples::Policy::skip);
  restore(again, save_loader(strict));
  EXPECT_EQ(again.skipped().samples, loader.skipped().samples);
  EXPECT_EQ(again.skipped().count, 7);
}

TEST_F(ResumeSkipped, TakesCheckpointsThatSayNothingOfIt) {
  Loader strict = make(BadSamples::Policy::fail);
  const Checkpoint checkpoint = save_loader(strict);
  EXPECT_THAT(checkpoint.tensors(), SizeIs(1)) << "the cursors";
  EXPECT_THAT(describe_loader(checkpoint), Not(HasSubstr("skipped")));
  Loader loader = make(BadSamples::Policy::skip);
  go(loader, 2);
  restore(loader, checkpoint);
  EXPECT_EQ(loader.skipped().count, 0);
  EXPECT_THAT(loader.skipped().samples, IsEmpty());
}

TEST_F(ResumeSkipped, IsToldByDescribeLoader) {
  Loader loader = make(BadSamples::Policy::skip);
  go(loader, 8);
  EXPECT_THAT(describe_loader(save_loader(loader)), HasSubstr("bad samples skipped: 7"));
}

/// Checkpoints that say of skipped samples what cannot be.
class HostileSkips : public ResumeSkipped {
 protected:
  HostileSkips() { source_->corrupt.clear(); }

  /// What restoring such a checkpoint throws.
  std::optional<Error> refusal(const std::function<void(Snapshot&)>& add) {
    Loader loader = make(BadSamples::Policy::fail);
    go(loader, 3);
    Snapshot snapshot;
    save(loader, snapshot);
    add(snapshot);
    checkpoints_->save(3, snapshot);
    Loader other = make(BadSamples::Policy::skip);
    const auto error = error_of([&] { restore(other, *checkpoints_->latest()); });
    EXPECT_EQ(other.position().step, error ? 0 : 3);
    return error;
  }
  std::optional<Error> refusal(const Numbers& counts, const Numbers& rows, const std::string& text) {
    return refusal([&](Snapshot& snapshot) {
      snapshot.tensor("loader/main/skipped_counts", {}, std::ssize(counts), counts);
      snapshot.tensor("loader/main/skipped", {4}, std::ssize(rows) / 4, rows);
      snapshot.tensor("loader/main/skipped_text", DType::uint8, {}, std::ssize(text),
                      std::as_bytes(std::span(text)));
    });
  }
  static auto is_corrupt(std::initializer_list<std::string> words) { return is_error(corrupt, words); }
};

TEST_F(HostileSkips, AreRefusedWithTheTensorAndTheReason) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(refusal({2, 0}, {0, 99, 2, 1, 1, 0, 0, 1}, "abcd"));
  EXPECT_THAT(refusal({-1, 2}, {}, ""), is_corrupt({"skipped_counts", "cannot be"}));
  EXPECT_THAT(refusal({kMost, 1}, {}, ""), is_corrupt({"cannot be"}));
  EXPECT_THAT(refusal({1}, {0, 1, 0, 0, 0, 2, 0, 0}, ""), is_corrupt({"lists more than were counted"}));
  for (const Numbers& row : {Numbers{-1, 1, 0, 0}, {0, 100, 0, 0}, {0, -1, 0, 0}}) {
    EXPECT_THAT(refusal({1}, row, ""), is_corrupt({"names a sample that is not"}));
  }
  for (const Numbers& row : {Numbers{0, 1, 3, 2}, {0, 1, kMost, kMost}, {0, 1, -1, 2}}) {
    EXPECT_THAT(refusal({1}, row, "abcd"), is_corrupt({"texts that are not"}));
  }
  EXPECT_THAT(refusal({1}, {0, 1, 2, 1}, "abcd"), is_corrupt({"longer than what is listed"}));
}

TEST_F(HostileSkips, OfAnotherTypeOrShapeOrMissingAreRefused) {
  const Numbers numbers{0, 0, 0};
  const std::vector<double> reals{0, 0, 0};
  const auto name = "loader/main/skipped_counts";
  EXPECT_THAT(refusal([&](Snapshot& s) { s.tensor(name, {3}, 1, numbers); }),
              is_corrupt({"is not int64 [rows]"}));
  EXPECT_THAT(refusal([&](Snapshot& s) { s.tensor(name, {}, 3, reals); }),
              is_corrupt({"is not int64 [rows]"}));
  EXPECT_THAT(refusal([&](Snapshot& s) { s.tensor(name, {}, 3, numbers); }), is_corrupt({"is missing"}));
}

}  // namespace rota::test::resume_skipped_test
