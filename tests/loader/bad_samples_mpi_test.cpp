// Bad samples on many ranks: all stop at the same step, nobody is left waiting, and the list outlives the
// world.

#include "loader/ranks.hpp"
#include "test.hpp"

namespace rota::test::bad_samples_mpi_test {

/// What ends the run of this rank, if not its last step.
std::optional<Error> end_of(Loader& loader) {
  return error_of([&] { run_out(loader); });
}

class BadSamplesOnRanks : public TestWithParam<int> {
 protected:
  Loader make(const Communicator& comm) { return Loader(comm, source_, options_); }
  /// All ranks must have had the same.
  static void expect_same(std::int64_t value) {
    EXPECT_THAT(ranks::all_gather(everyone(), value), Each(value));
  }

  void corrupt_each_seventh() {
    for (std::int64_t id = 0; id < 300; id += 7) source_->corrupt.insert(id);
  }

  std::shared_ptr<ToldSource> source_ = faulty(300, true);
  LoaderOptions options_ =
      in_order(10, GetParam(), {.policy = BadSamples::Policy::skip, .io_retries = 0, .retry_wait = {}});
};

/// Shared memory that is gone on the last rank, as a loader finds when it is made.
class LostFiles : public ReadPlan {
 public:
  using ReadPlan::ReadPlan;
  [[nodiscard]] Sharing sharing() const override { return Sharing::in_few; }
  [[nodiscard]] ReadCounts counts() const override {
    if (is_last()) throw Error(ErrorCode::io, "the memory is gone");
    return {};
  }
};

TEST_P(BadSamplesOnRanks, AreNotSkippedByLoadersOfWhichOneCannotBeMade) {
  options_.interleave = 1;  // as files that are shared need it
  source_->on_plan = [this](std::int64_t) { return std::make_unique<LostFiles>(*source_); };
  EXPECT_ERROR(make(everyone()), io, {"the memory is gone"});
}

TEST_P(BadSamplesOnRanks, BeyondTheLimitEndTheRunOnAllOfThemAtTheSameStep) {
  std::mt19937 random(3);  // the same on all ranks
  for (int round = 0; round < 20; ++round) {
    source_ = faulty(300, round % 2 == 0);
    Numbers bad;
    for (int i = 0; i < 12; ++i) bad.push_back(static_cast<std::int64_t>(random() % 300));
    source_->corrupt = {bad.begin(), bad.end()};
    const auto limit = static_cast<std::int64_t>(random() % source_->corrupt.size());
    options_.bad_samples.max_skipped = limit;
    Loader loader = make(everyone());
    const auto end = end_of(loader);
    // The limit is passed in the batch of the bad sample number `limit`, and the next step throws.
    const std::int64_t passing = *std::next(source_->corrupt.begin(), limit);
    EXPECT_EQ(loader.position().step, passing / 10 + 1);
    ASSERT_THAT(end, is_error(corrupt, {fmt::format("max_skipped is {}", limit)}));
    EXPECT_STREQ(end_of(loader)->what(), end->what()) << "said again";
    expect_same(loader.position().step);
    expect_same(loader.skipped().count);
  }
}

TEST_P(BadSamplesOnRanks, AreNamedToAllByTheLowestThatHasSkippedOne) {
  const int last = everyone().size() - 1;
  source_->corrupt = {299};  // the last slot of the last batch
  options_.bad_samples.max_skipped = 0;
  Loader loader = make(everyone());
  const auto end = end_of(loader);
  EXPECT_EQ(loader.position().step, 30);
  ASSERT_TRUE(end);
  EXPECT_THAT(end->what(),
              AllOf(StartsWith(last == 0 ? "skip" : fmt::format("rank {}: skip", last)),
                    HasSubstr("skip bad samples: 1 are skipped"),
                    HasSubstr("The first: sample 299 (place-299) in epoch 0: read: the bytes are wrong")));
}

TEST_P(BadSamplesOnRanks, WithinTheLimitAreCountedByAllWhenTheNextStepBegins) {
  corrupt_each_seventh();
  Loader loader = make(everyone());
  std::int64_t before = 0;
  for (std::int64_t done = 0; const Batch& batch : loader) {
    done += batch.global_size();
    std::int64_t real = batch.real();
    EXPECT_GE(loader.skipped().count, before + batch.size() - real);
    everyone().sum(std::span(&real, 1));
    before = (done + 6) / 7;
    if (everyone().size() == 1) EXPECT_EQ(batch.global_real(), real);
    if (everyone().size() > 1) EXPECT_ERROR(batch.global_real(), invalid_argument, {"sum real() over ranks"});
    EXPECT_LE(batch.global_size() - real, before);
  }
  EXPECT_EQ(loader.skipped().count, 43);
  std::int64_t here = loader.skipped().by_this_rank;
  everyone().sum(std::span(&here, 1));
  EXPECT_EQ(here, 43);
}

/// Steps delivered, and errors with the step that they came at, of a caller that always calls again.
struct Stubborn {
  std::int64_t steps = 0;
  std::vector<std::pair<std::int64_t, std::string>> errors;

  explicit Stubborn(Loader& loader) {
    while (true) {
      try {
        if (!loader.next()) return;
        ++steps;
      } catch (const Error& error) {
        errors.emplace_back(steps, error.what());
      }
    }
  }
};

TEST_P(BadSamplesOnRanks, ComeWithWordOfAFailureToTheOtherRanksOneStepLater) {
  const World world = everyone().world();
  for (const std::int64_t broken : {0, 144, 295}) {
    source_ = faulty(300, false);
    source_->io_failures = {{broken, 2}};
    source_->corrupt = {7, 150, 299};
    int failing = 0;
    while (share(10, failing + 1, world.size) <= broken % 10) ++failing;
    Loader loader = make(everyone());
    const Stubborn run(loader);
    EXPECT_EQ(run.steps, 30);
    ASSERT_FALSE(run.errors.empty());
    const auto& [step, text] = run.errors.front();
    const std::string who = "rank " + std::to_string(failing);
    if (world.rank == failing) {
      EXPECT_EQ(step, broken / 10);
      EXPECT_THAT(text, HasSubstr("read sample " + std::to_string(broken)));
    } else {
      EXPECT_EQ(step, broken / 10 + 1);
      EXPECT_THAT(text, HasSubstr(who + " could not read the batch of the step before"));
      EXPECT_EQ(run.errors.size(), 1U);
    }
    EXPECT_EQ(loader.skipped().count, 3);
  }
}

TEST_P(BadSamplesOnRanks, AreCountedOnWhenRanksLeaveAndCome) {
  corrupt_each_seventh();
  const auto fewer = first_ranks(std::max(1, everyone().size() / 2));
  std::optional<Loader> loader(make(everyone()));
  const auto go = [&](int steps) {
    for (int k = 0; k < steps; ++k) EXPECT_TRUE(loader->next());
  };
  go(10);
  if (fewer) {
    loader->rescale(*fewer);
    EXPECT_EQ(loader->skipped().count, 15) << "of the last step, too";
    go(10);
  } else {
    loader.reset();
    loader.emplace(source_, options_, World{});
    loader->seek({.epoch = 0, .consumed = 200, .step = 20});
  }
  loader->rescale(everyone());
  EXPECT_EQ(loader->skipped().count, 29);
  go(10);
  EXPECT_FALSE(loader->next());
  EXPECT_EQ(loader->skipped().count, 43);
  loader->rescale(everyone());
  EXPECT_EQ(loader->skipped().count, 43);
}

TEST_P(BadSamplesOnRanks, EndInTheMiddleOfARunWithoutWaitingForEver) {
  source_->corrupt = {0, 1, 2};
  for (int round = 0; round < 5; ++round) {
    Loader loader = make(everyone());
    for (int k = 0; k < round; ++k) EXPECT_TRUE(loader.next());
  }
  // A step further than the others will ever come.
  Loader loader = make(everyone());
  if (everyone().rank() == 0) {
    EXPECT_TRUE(loader.next());
  }
}

TEST(SkippedSamples, OfAChainOfWorldsAreListedOnceWhateverStopsAndCrashes) {
  static constexpr std::array kTails = {Tail::partial, Tail::carry, Tail::pad};
  for_seeds(12, [&](std::uint64_t seed, std::mt19937_64& random) {
    const auto source = faulty(draw(random, 1, 200), seed % 2 == 0);
    for (std::int64_t i = draw(random, 0, 30); i > 0; --i) {
      (draw(random, 0, 1) == 0 ? source->corrupt : source->corrupt_sizes)
          .insert(draw(random, 0, source->size() - 1));
    }
    const Course course{.source = source,
                        .options = {.global_batch_size = draw(random, 1, 30),
                                    .shards = draw(random, 1, 9),
                                    .seed = seed,
                                    .tail = kTails.at(seed % 3),
                                    .epochs = 2,
                                    .bad_samples = kSkip}};
    const SharedDirectory directory;
    const auto steps = through_ranks(course, random_turns(random, everyone().size()), directory.path());
    if (!is_root()) return;
    EXPECT_EQ(steps, course.unbroken());
    Loader loader(source, course.options, World{});
    restore(loader, *CheckpointDirectory(Communicator(), directory.path()).latest());
    std::vector<std::pair<std::int64_t, std::int64_t>> listed;
    for (const SkippedSamples::Sample& s : loader.skipped().samples) {
      listed.emplace_back(s.epoch, s.id.value);
      EXPECT_EQ(s.where, "place-" + std::to_string(s.id.value));
    }
    EXPECT_EQ(loader.skipped().count, std::ssize(listed));
    std::ranges::sort(listed);
    std::vector<std::pair<std::int64_t, std::int64_t>> bad;
    for (const auto& [sample, times] : times_read(steps)) {
      EXPECT_EQ(times, 1);
      if (source->is_corrupt(sample[2])) bad.emplace_back(sample[1], sample[2]);
    }
    EXPECT_EQ(listed, bad);
  });
}

TEST_P(BadSamplesOnRanks, OfStepsThatARestoreUndoesAreNotCounted) {
  corrupt_each_seventh();
  options_.bad_samples.max_skipped = 43;
  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  Loader loader = make(everyone());
  for (int step = 0; step < 10; ++step) EXPECT_TRUE(loader.next());
  checkpoints.save_all(10, loader);
  for (int time = 0; time < 3; ++time) {
    for (int step = 0; step < 20; ++step) EXPECT_TRUE(loader.next());
    restore(loader, *checkpoints.latest());
    EXPECT_EQ(loader.skipped().count, 15);
  }
  loader.rescale(everyone());
  EXPECT_FALSE(end_of(loader));
  EXPECT_EQ(loader.skipped().count, 43);
}

TEST_P(BadSamplesOnRanks, AreTreatedAlikeOnRanksThatReadTogether) {
  EXPECT_NO_THROW(make(everyone()));
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  if (everyone().rank() == 1) options_.bad_samples.max_skipped = 5;
  EXPECT_ERROR(make(everyone()), mismatch, {"up to 5 bad samples"});
}

// Options that one rank alone gets wrong, where the others would wait for it in next(); and a step that
// others are not at.
TEST_P(BadSamplesOnRanks, AreCountedByNobodyWhereOneRankCannotMakeItsLoader) {
  options_.global_batch_size = is_last() ? 0 : 8;
  EXPECT_ERROR(make(everyone()), invalid_argument, {"global_batch_size"});
  options_.global_batch_size = 8;
  Loader loader = make(everyone());
  if (everyone().size() > 1) {
    Loader other = make(everyone());
    if (is_last()) other.seek({.epoch = 0, .consumed = 8, .step = 1});
    EXPECT_ERROR(other.rescale(everyone()), mismatch, {"step 1"});
  }
  EXPECT_FALSE(end_of(loader));
  EXPECT_EQ(loader.position().step, 38);
}

// Replicas see the same bad samples, which count once.
TEST_P(BadSamplesOnRanks, OfReplicasCountOnce) {
  corrupt_each_seventh();
  options_.bad_samples.max_skipped = 43;
  const auto replicas = everyone().data_parallel(0);
  Loader loader = make(replicas);
  EXPECT_EQ(loader.world().size, 1);
  EXPECT_FALSE(end_of(loader));
  EXPECT_EQ(loader.skipped().count, 43);
  EXPECT_EQ(loader.skipped().by_this_rank, 43);
}

INSTANTIATE_TEST_SUITE_P(Workers, BadSamplesOnRanks, Values(0, 2));

}  // namespace rota::test::bad_samples_mpi_test
