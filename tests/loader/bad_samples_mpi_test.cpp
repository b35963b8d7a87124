// Bad samples on many ranks: all stop at the same step, nobody is left waiting, and the list outlives the
// world.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/node_files.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::bad_samples_mpi_test {

const mpi::Communicator& everybody() { return mpi_session().comm(); }

/// The ranks below `size`; nothing on the others. **Collective** over all.
std::optional<mpi::Communicator> first_ranks(int size) {
  const mpi::Communicator& all = everybody();
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(all.get(), all.rank() < size ? 0 : MPI_UNDEFINED, all.rank(), &part);
  if (part == MPI_COMM_NULL) return std::nullopt;
  std::optional<mpi::Communicator> comm(std::in_place, part);
  MPI_Comm_free(&part);
  return comm;
}

/// How a run of this rank ended.
struct End {
  std::int64_t steps = 0;  // delivered
  std::string error;
};

End run(Loader& loader) {
  End end;
  try {
    for (; loader.next(); ++end.steps) {
    }
  } catch (const Error& error) {
    end.error = error.what();
  }
  return end;
}

class BadSamplesOnRanks : public ::testing::TestWithParam<int> {
 protected:
  Loader make(const mpi::Communicator& comm) { return Loader(comm, source_, options_); }
  /// All ranks must have had the same.
  static void expect_same(std::int64_t value) { EXPECT_THAT(mpi::gather(everybody(), value), Each(value)); }

  std::shared_ptr<ToldSource> source_ = faulty(300, true);
  LoaderOptions options_{.global_batch_size = 10,
                         .shards = 1,
                         .shuffle = Shuffle::none,
                         .workers = GetParam(),
                         .bad_samples = {.policy = OnBadSample::skip, .io_retries = 0, .retry_wait = {}}};
};

/// Shared memory that is gone on the last rank, as a loader finds when it is made.
class LostFiles : public NodeFiles {
 public:
  [[nodiscard]] std::shared_ptr<const void> pin(SampleRange, bool) const override { return nullptr; }
  [[nodiscard]] Fetched fetched() const override {
    if (everybody().rank() == everybody().size() - 1) throw Error(ErrorCode::io, "the memory is gone");
    return {};
  }
};

TEST_P(BadSamplesOnRanks, AreNotSkippedByLoadersOfWhichOneCannotBeMade) {
  options_.interleave = 1;  // as files that are shared need it
  const LostFiles files;
  source_->files = &files;
  try {
    make(everybody());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("the memory is gone"));
  }
}

TEST_P(BadSamplesOnRanks, BeyondTheLimitEndTheRunOnAllOfThemAtTheSameStep) {
  std::mt19937 random(3);  // the same on all ranks
  for (int round = 0; round < 20; ++round) {
    source_ = faulty(300, round % 2 == 0);
    std::vector<std::int64_t> bad;
    for (int i = 0; i < 12; ++i) bad.push_back(static_cast<std::int64_t>(random() % 300));
    source_->corrupt = {bad.begin(), bad.end()};
    const auto limit = static_cast<std::int64_t>(random() % source_->corrupt.size());
    options_.bad_samples.max_skipped = limit;
    Loader loader = make(everybody());
    const End end = run(loader);
    // The limit is passed in the batch of the bad sample number `limit`, and the next step throws.
    const std::int64_t passing = *std::next(source_->corrupt.begin(), limit);
    EXPECT_EQ(end.steps, passing / 10 + 1);
    EXPECT_THAT(end.error, HasSubstr("bad_samples.max_skipped is " + std::to_string(limit)));
    EXPECT_EQ(run(loader).error, end.error) << "said again";
    expect_same(end.steps);
    expect_same(loader.skipped().count);
  }
}

TEST_P(BadSamplesOnRanks, AreNamedToAllByTheLowestThatHasSkippedOne) {
  const int last = everybody().size() - 1;
  source_->corrupt = {299};  // the last slot of the last batch
  options_.bad_samples.max_skipped = 0;
  Loader loader = make(everybody());
  const End end = run(loader);
  EXPECT_EQ(end.steps, 30);
  const std::string head = last == 0 ? "" : "rank " + std::to_string(last) + ": ";
  EXPECT_THAT(end.error,
              AllOf(::testing::StartsWith(head + "skip bad samples: 1 are skipped"),
                    HasSubstr("The first: sample 299 (place-299) in epoch 0: read: the bytes are wrong")));
}

TEST_P(BadSamplesOnRanks, WithinTheLimitAreCountedByAllWhenTheNextStepBegins) {
  for (std::int64_t id = 0; id < 300; id += 7) source_->corrupt.insert(id);
  Loader loader = make(everybody());
  std::int64_t before = 0;
  for (std::int64_t done = 0; const Batch& batch : loader) {
    done += batch.global_size();
    std::int64_t real = batch.real();
    EXPECT_GE(loader.skipped().count, before + batch.size() - real);
    mpi::sum(everybody(), std::span(&real, 1));
    before = (done + 6) / 7;
    EXPECT_EQ(batch.global_real(), batch.global_size());
    EXPECT_LE(batch.global_size() - real, before);
  }
  EXPECT_EQ(loader.skipped().count, 43);
  std::int64_t here = loader.skipped().by_this_rank;
  mpi::sum(everybody(), std::span(&here, 1));
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
  const World world = everybody().world();
  for (const std::int64_t broken : {0, 144, 295}) {
    source_ = faulty(300, false);
    source_->io_failures = {{broken, 2}};
    source_->corrupt = {7, 150, 299};
    int failing = 0;
    while (share(10, failing + 1, world.size) <= broken % 10) ++failing;
    Loader loader = make(everybody());
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
  for (std::int64_t id = 0; id < 300; id += 7) source_->corrupt.insert(id);
  const auto fewer = first_ranks(std::max(1, everybody().size() / 2));
  std::optional<Loader> loader(make(everybody()));
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
  loader->rescale(everybody());
  EXPECT_EQ(loader->skipped().count, 29);
  go(10);
  EXPECT_FALSE(loader->next());
  EXPECT_EQ(loader->skipped().count, 43);
  loader->rescale(everybody());
  EXPECT_EQ(loader->skipped().count, 43);
}

TEST_P(BadSamplesOnRanks, EndInTheMiddleOfARunWithoutWaitingForEver) {
  source_->corrupt = {0, 1, 2};
  for (int round = 0; round < 5; ++round) {
    Loader loader = make(everybody());
    for (int k = 0; k < round; ++k) EXPECT_TRUE(loader.next());
  }
  // A step further than the others will ever come.
  Loader loader = make(everybody());
  if (everybody().rank() == 0) {
    EXPECT_TRUE(loader.next());
  }
}

// ---- checkpoints ----

/// A run of worlds that take turns, with a checkpoint on disk between them, which at times is not written.
class Chain {
 public:
  explicit Chain(std::uint64_t seed) : random_(seed) {
    source_ = faulty(draw(1, 200), seed % 2 == 0);
    for (std::int64_t i = draw(0, 30); i > 0; --i) {
      (draw(0, 1) == 0 ? source_->corrupt : source_->corrupt_sizes).insert(draw(0, source_->size() - 1));
    }
    static constexpr std::array kTails = {Tail::partial, Tail::carry, Tail::pad};
    options_ = {.global_batch_size = draw(1, 30),
                .shards = draw(1, 9),
                .seed = seed,
                .tail = kTails.at(seed % 3),
                .epochs = 2,
                .bad_samples = {.policy = OnBadSample::skip}};
  }

  void go(const std::filesystem::path& directory) {
    for (bool is_over = false; !is_over;) {
      const auto comm = first_ranks(static_cast<int>(draw(1, everybody().size())));
      const bool is_saved = draw(0, 3) > 0;
      const std::int64_t steps = draw(0, 6);
      options_.workers = static_cast<int>(draw(0, 2));
      std::int64_t flag = comm && leg(*comm, directory, steps, is_saved) ? 1 : 0;
      mpi::max(everybody(), std::span(&flag, 1));
      is_over = flag != 0;
    }
  }

  /// How often each sample of both epochs was delivered, by all ranks, in legs that were saved: [2 N].
  [[nodiscard]] std::vector<std::int64_t> delivered() const {
    std::vector<std::int64_t> times(static_cast<std::size_t>(2 * source_->size()));
    for (const std::int64_t at : delivered_) ++times[static_cast<std::size_t>(at)];
    mpi::sum(everybody(), std::span(times));
    return times;
  }
  /// What is to be listed, as (epoch, id), sorted.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> bad() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      for (std::int64_t id = 0; id < source_->size(); ++id) {
        if (source_->is_corrupt(id)) all.emplace_back(epoch, id);
      }
    }
    return all;
  }
  /// A loader of one process, for reading what was saved.
  [[nodiscard]] Loader alone() const {
    LoaderOptions options = options_;
    options.bad_samples = {};
    return Loader(source_, options, World{});
  }

 private:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  bool leg(const mpi::Communicator& comm, const std::filesystem::path& directory, std::int64_t steps,
           bool is_saved) {
    CheckpointDirectory checkpoints(comm, directory);
    Loader loader(comm, source_, options_);
    if (const auto checkpoint = checkpoints.latest()) restore(loader, *checkpoint);
    std::vector<std::int64_t> seen;
    bool is_over = false;
    for (std::int64_t k = 0; k < steps && !is_over; ++k) {
      const auto batch = loader.next();
      is_over = !batch;
      for (std::size_t i = 0; batch && i < batch->ids().size(); ++i) {
        if (batch->kinds()[i] == SlotKind::pad) continue;
        seen.push_back(batch->epochs()[i] * source_->size() + batch->ids()[i].value);
      }
    }
    if (!is_saved && !is_over) return false;
    checkpoints.save_all(loader.position().step, loader);
    delivered_.insert(delivered_.end(), seen.begin(), seen.end());
    return is_over;
  }

  std::mt19937_64 random_;
  std::shared_ptr<ToldSource> source_;
  LoaderOptions options_;
  std::vector<std::int64_t> delivered_;
};

TEST(SkippedSamples, OfAChainOfWorldsAreListedOnceWhateverStopsAndCrashes) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    std::optional<test::TemporaryDirectory> owner;
    if (everybody().rank() == 0) owner.emplace();
    const std::filesystem::path directory =
        mpi::broadcast(everybody(), owner ? owner->path().string() : std::string());
    Chain chain(seed);
    chain.go(directory);
    EXPECT_THAT(chain.delivered(), Each(1)) << "seed " << seed;
    if (!owner) continue;
    Loader loader = chain.alone();
    restore(loader, *CheckpointDirectory(mpi::Communicator(), directory).latest());
    std::vector<std::pair<std::int64_t, std::int64_t>> listed;
    for (const SkippedSample& s : loader.skipped().samples) {
      listed.emplace_back(s.epoch, s.id.value);
      EXPECT_EQ(s.where, "place-" + std::to_string(s.id.value));
    }
    EXPECT_EQ(loader.skipped().count, std::ssize(listed));
    std::ranges::sort(listed);
    EXPECT_EQ(listed, chain.bad()) << "seed " << seed;
  }
}

TEST_P(BadSamplesOnRanks, OfStepsThatARestoreUndoesAreNotCounted) {
  for (std::int64_t id = 0; id < 300; id += 7) source_->corrupt.insert(id);
  options_.bad_samples.max_skipped = 43;
  std::optional<test::TemporaryDirectory> owner;
  if (everybody().rank() == 0) owner.emplace();
  CheckpointDirectory checkpoints(everybody(),
                                  mpi::broadcast(everybody(), owner ? owner->path().string() : ""));
  Loader loader = make(everybody());
  for (int step = 0; step < 10; ++step) EXPECT_TRUE(loader.next());
  checkpoints.save_all(10, loader);
  for (int time = 0; time < 3; ++time) {
    for (int step = 0; step < 20; ++step) EXPECT_TRUE(loader.next());
    restore(loader, *checkpoints.latest());
    EXPECT_EQ(loader.skipped().count, 15);
  }
  loader.rescale(everybody());
  EXPECT_EQ(run(loader).error, "");
  EXPECT_EQ(loader.skipped().count, 43);
}

TEST_P(BadSamplesOnRanks, AreTreatedAlikeOnRanksThatReadTogether) {
  EXPECT_NO_THROW(make(everybody()));
  if (everybody().size() == 1) GTEST_SKIP() << "one rank has no others";
  if (everybody().rank() == 1) options_.bad_samples.max_skipped = 5;
  try {
    make(everybody());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("up to 5 bad samples"));
  }
}

// Options that one rank alone gets wrong, where the others would wait for it in next(); and a step that
// others are not at.
TEST_P(BadSamplesOnRanks, AreCountedByNobodyWhereOneRankCannotMakeItsLoader) {
  const bool is_last = everybody().rank() == everybody().size() - 1;
  const auto error_of = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  options_.global_batch_size = is_last ? 0 : 8;
  EXPECT_THAT(error_of([&] { make(everybody()); }), HasSubstr("global_batch_size"));
  options_.global_batch_size = 8;
  Loader loader = make(everybody());
  if (everybody().size() > 1) {
    Loader other = make(everybody());
    if (is_last) other.seek({.epoch = 0, .consumed = 8, .step = 1});
    EXPECT_THAT(error_of([&] { other.rescale(everybody()); }), HasSubstr("step 1"));
  }
  EXPECT_EQ(run(loader).steps, 38);
}

// Replicas see the same bad samples, which count once.
TEST_P(BadSamplesOnRanks, OfReplicasCountOnce) {
  for (std::int64_t id = 0; id < 300; id += 7) source_->corrupt.insert(id);
  options_.bad_samples.max_skipped = 43;
  const auto replicas = mpi::data_parallel(everybody(), 0);
  Loader loader = make(replicas);
  EXPECT_EQ(loader.world().size, 1);
  EXPECT_EQ(run(loader).error, "");
  EXPECT_EQ(loader.skipped().count, 43);
  EXPECT_EQ(loader.skipped().by_this_rank, 43);
}

INSTANTIATE_TEST_SUITE_P(Workers, BadSamplesOnRanks, ::testing::Values(0, 2));

}  // namespace rota::test::bad_samples_mpi_test
