#include "loader/course.hpp"
#include "messages.hpp"

namespace rota::test::loader_test {

TEST(Loader, MovesItsPositionOnlyWhenABatchIsHandedOver) {
  Loader loader(counting(100), {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 8});
  EXPECT_EQ(loader.position(), Position{});
  auto batch = loader.next();
  EXPECT_EQ(loader.position(), (Position{.epoch = 0, .consumed = 10, .step = 1}));
  for (int k = 0; k < 9; ++k) batch = loader.next();
  EXPECT_EQ(loader.position(), (Position{.epoch = 1, .consumed = 0, .step = 10}));
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(Loader, SeeksBackAndForthExactly) {
  Loader loader(counting(120), {.global_batch_size = 7, .epochs = 2, .workers = 2});
  std::vector<std::pair<Position, Numbers>> seen;
  for (Position at; const auto batch = loader.next(); at = loader.position()) {
    seen.emplace_back(at, ids_of(*batch));
  }
  for (const std::size_t k : {5U, 0U, 30U, 17U, 17U, 34U}) {
    loader.seek(seen[k].first);
    const auto batch = loader.next();
    EXPECT_EQ(ids_of(*batch), seen[k].second);
  }
}

TEST(Loader, ChangesTheBatchSizeBetweenSteps) {
  Loader loader(counting(100), {.global_batch_size = 10, .shuffle = Shuffle::none, .workers = 1});
  EXPECT_EQ((*loader.next()).size(), 10);
  loader.set_global_batch_size(33);
  EXPECT_EQ((*loader.next()).size(), 33);
  EXPECT_EQ(loader.position().consumed, 43);
  EXPECT_EQ((*loader.next()).start().consumed, 43);
}

TEST(Loader, MarksPaddingAndSaysHowManySamplesAreReal) {
  Loader loader(counting(10), {.global_batch_size = 8, .tail = Tail::pad});
  const auto first = loader.next();
  EXPECT_THAT(first->kinds(), Each(SlotKind::sample));
  const auto last = loader.next();
  EXPECT_EQ(last->global_size(), 8);
  EXPECT_EQ(last->global_real(), 2);
  EXPECT_EQ(std::count(last->kinds().begin(), last->kinds().end(), SlotKind::pad), 6);
}

TEST(Loader, GivesEverySlotItsEpochWhereABatchCarriesOver) {
  Loader loader(counting(5), {.global_batch_size = 3, .tail = Tail::carry, .epochs = 2});
  const auto first = loader.next();
  const auto second = loader.next();
  EXPECT_THAT(first->epochs(), ElementsAre(0, 0, 0));
  EXPECT_THAT(second->epochs(), ElementsAre(0, 0, 1));
}

TEST(Loader, HoldsTheBoundOfBytesButAlwaysOneBatch) {
  const auto source = counting(1000);
  Loader loader(source,
                {.global_batch_size = 10, .workers = 2, .read_ahead_batches = 50, .read_ahead_bytes = 1});
  std::int64_t handed = 0;
  for (const Batch& batch : loader) {
    handed += batch.size();
    // Only the batch at hand may be under way: what was handed over, and the next one.
    EXPECT_LE(source->reads, handed + 10);
  }
  EXPECT_EQ(handed, 1000);
}

TEST(Loader, CountsWhatItDid) {
  for (const int workers : {0, 2}) {
    Loader loader(counting(100), {.global_batch_size = 10, .workers = workers});
    for (const Batch& batch : loader) (void)batch;
    const LoaderStats stats = loader.stats();
    EXPECT_EQ(stats.batches, 10);
    EXPECT_EQ(stats.samples, 100);
    EXPECT_EQ(static_cast<int>(stats.workers.size()), std::max(workers, 1));
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    for (const LoaderStats::Worker& worker : stats.workers) {
      samples += worker.samples;
      bytes += worker.bytes;
      EXPECT_GT(worker.reads.seconds(), 0);
    }
    EXPECT_EQ(samples, 100);
    EXPECT_EQ(bytes, stats.bytes);
  }
}

TEST(Loader, EndsAtOnceWithoutSamples) {
  for (const int workers : {0, 2}) {
    Loader loader(counting(0), {.epochs = kEndless, .workers = workers});
    EXPECT_FALSE(loader.next());
    EXPECT_EQ(loader.position(), Position{});
  }
}

TEST(Loader, GoesOnWithoutEnd) {
  Loader loader(counting(3), {.global_batch_size = 2, .epochs = kEndless});
  for (int k = 0; k < 100; ++k) ASSERT_TRUE(loader.next());
  EXPECT_EQ(loader.position().epoch, 50);
}

// Of up to 40 samples and 4 epochs.
Loader some_loader(std::mt19937_64& random, Tail tail) {
  const LoaderOptions options{.global_batch_size = draw(random, 1, 12),
                              .shards = 3,
                              .tail = tail,
                              .epochs = draw(random, 1, 4),
                              .workers = 0};
  return {counting(draw(random, 0, 40)), options};
}

TEST(Loader, CountsTheStepsThatItTakes) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    Loader loader = some_loader(random, static_cast<Tail>(round % 4));
    const std::int64_t steps = loader.steps();
    std::int64_t first = 0;
    while (loader.position().epoch == 0 && loader.next()) ++first;
    if (loader.options().tail != Tail::carry) EXPECT_EQ(loader.steps_per_epoch(), first);
    while (loader.next()) ++first;
    EXPECT_EQ(first, steps);
    EXPECT_EQ(loader.steps(), steps);
  }
  const Loader endless(counting(3), {.global_batch_size = 2, .epochs = kEndless});
  EXPECT_ERROR(endless.steps(), unsupported, {"no last epoch"});
  const Loader mixed(Mixture{.datasets = {{counting(10)}}}, {});
  EXPECT_ERROR(mixed.steps_per_epoch(), unsupported, {"epochs of their own"});
  EXPECT_EQ(Loader(counting(1), {.global_batch_size = 1, .tail = Tail::carry, .epochs = kMaxCount}).steps(),
            kMaxCount);
}

// Where the steps begin that `loader` takes from here on, and its end.
std::vector<Position> starts_of(Loader& loader) {
  std::vector<Position> starts;
  while (const auto batch = loader.next()) {
    starts.push_back(batch->start());
    EXPECT_EQ(batch->end(), loader.position());
  }
  return starts;
}

TEST(Loader, KnowsWhereEachOfItsStepsBegins) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    Loader loader = some_loader(random, static_cast<Tail>(round % 4));
    for (auto step = draw(random, 0, 9); step > 0 && loader.next();) --step;
    const std::int64_t changed_at = loader.position().step;
    if (round % 2 == 0) loader.set_global_batch_size(draw(random, 1, 12));
    const auto starts = starts_of(loader);
    for (std::size_t k = 0; k < starts.size(); ++k) {
      EXPECT_EQ(loader.position_of(changed_at + static_cast<std::int64_t>(k)), starts[k]);
    }
    EXPECT_EQ(loader.position_of(changed_at + std::ssize(starts)), std::nullopt);
  }
}

TEST(Loader, KnowsTheStepsBeforeAChangeAndNoneOfAnotherPast) {
  Loader loader(counting(30), {.global_batch_size = 4});
  (void)loader.next();
  loader.seek(loader.position());
  EXPECT_EQ(loader.position_of(0), Position{});
  loader.set_global_batch_size(2);
  EXPECT_EQ(loader.position_of(0), Position{});
  loader.seek({.consumed = 5, .step = 1});
  EXPECT_ERROR(loader.position_of(0), unsupported, {"find step 0", "step 1"});
  EXPECT_ERROR(loader.position_of(-1), out_of_range, {"begin with 0"});
}

TEST(Loader, MayHaveAShardForEachFile) {
  const auto source = told(10, kOneNumber);
  source->parts = {3, 0, 5, 2};
  Loader loader(source, {.shards = kFileShards, .interleave = 1, .shuffle = Shuffle::within});
  EXPECT_EQ(loader.options().shards, 4);
  Numbers ids = rest_of(loader);
  for (const auto& [first, last] : {std::pair{0, 3}, {3, 8}, {8, 10}}) {
    Numbers own(ids.begin() + first, ids.begin() + last);
    std::ranges::sort(own);
    EXPECT_EQ(own.front(), first);
    EXPECT_EQ(own.back(), last - 1);
  }
  const std::string saved = state(loader);
  source->parts = {5, 5};
  Loader other(source, {.shards = kFileShards, .interleave = 1, .shuffle = Shuffle::within});
  EXPECT_ERROR(restore(other, saved), mismatch, {"shards to 4"});
  source->parts = {5, 6};
  EXPECT_ERROR(Loader(source, {.shards = kFileShards}), callback, {"part_sizes"});
  source->parts = {};
  EXPECT_ERROR(Loader(source, {.shards = kFileShards}), invalid_argument, {"part_sizes"});
  EXPECT_ERROR(Loader(Mixture{.datasets = {{source}}}, {.shards = kFileShards}), unsupported,
               {"number of shards"});
}

TEST(Loader, WhoseShardsAreTooSmallToShuffleSaysSo) {
  const SinkMessages told;
  Loader(counting(100), {.shuffle = Shuffle::within});
  Loader(counting(600), {.shuffle = Shuffle::within});
  Loader(counting(256), {.shuffle = Shuffle::global});
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("100 samples in 256 shards")));
}

TEST(Loader, WithoutAStepIsTold) {
  const SinkMessages told;
  Loader(counting(0), {});
  Loader(counting(40), {.global_batch_size = 41, .tail = Tail::drop});
  const Mixture mixture{.datasets = {{counting(10)}}};
  Loader(mixture, {.global_batch_size = 41, .tail = Tail::drop});
  Loader(counting(40), {.global_batch_size = 41});
  Loader(counting(0), {}, World{1, 2});  // said by rank 0
  EXPECT_THAT(told.lines,
              ElementsAre(HasSubstr("no step: 0 samples"),
                          HasSubstr("40 samples, global_batch_size 41, tail drop"), HasSubstr("10 samples")));
}

// ---- where a `for` begins ----

class For : public Test {
 protected:
  static Loader make(LoaderOptions options = {}) {
    options.global_batch_size = 10;
    options.shuffle = Shuffle::none;
    return Loader(counting(40), options);
  }
  SinkMessages told_;
};

TEST_F(For, OverALoaderForEvaluationBeginsAnewAndThereIsNoState) {
  for (const int workers : {0, 2}) {
    Loader loader = make({.evaluation = true, .workers = workers});
    for (const Batch& batch : loader) {
      if (batch.start().step == 1) break;
    }
    for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(rest_of(loader), numbers_from(0, 40));
    EXPECT_ERROR(state(loader), invalid_argument, {"has no state"});
    EXPECT_ERROR(Checkpoints()->save_all(0, loader), invalid_argument, {"has no state"});
  }
  EXPECT_THAT(told_.lines, IsEmpty());
}

TEST_F(For, ThatGoesOnInTheMiddleSaysSoOnceButNotBehindARestore) {
  Loader loader = make();
  const std::string begin = state(loader);
  (void)loader.next();
  const std::string middle = state(loader);
  for (int pass = 0; pass < 2; ++pass) {
    for (const Batch& batch : loader) {
      EXPECT_EQ(batch.start().step, 1 + pass);
      break;
    }
  }
  EXPECT_THAT(told_.lines, ElementsAre(AllOf(HasSubstr("in epoch 0 behind sample 10"), HasSubstr("restart()"),
                                             HasSubstr("evaluation"))));
  Loader other = make();
  restore(other, middle);
  EXPECT_EQ(rest_of(other), numbers_from(10, 40));
  restore(other, begin);
  EXPECT_EQ(rest_of(other), numbers_from(0, 40));
  EXPECT_THAT(told_.lines, SizeIs(1));
}

TEST_F(For, OverALoaderWhoseEpochsAreOverIsAnErrorButNotBehindARestore) {
  Loader loader = make();
  EXPECT_EQ(rest_of(loader), numbers_from(0, 40));
  EXPECT_FALSE(loader.next());
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_ERROR(rest_of(loader), invalid_argument, {"epochs=1", "restart()", "evaluation"});
  }
  Loader other = make();
  restore(other, state(loader));
  EXPECT_THAT(rest_of(other), IsEmpty());
  EXPECT_ERROR(rest_of(other), invalid_argument);
  other.restart();
  EXPECT_EQ(rest_of(other), numbers_from(0, 40));
}

TEST_F(For, BehindARestartBeginsAnewAlsoOfAMixture) {
  const auto make_mixture = [] {
    return Loader(Mixture{.datasets = {{counting(400), 0.5}, {counting(400), 0.5}}},
                  {.global_batch_size = 10});
  };
  Loader loader = make_mixture();
  (void)loader.next();
  loader.set_weights(std::array{0.25, 0.75});
  (void)loader.next();
  loader.restart();
  Loader fresh = make_mixture();
  EXPECT_EQ(*loader.mixture(), *fresh.mixture());
  EXPECT_EQ(rest_of(loader), rest_of(fresh));
}

TEST_F(For, OverALoaderForEvaluationNeedsOneWholeEpoch) {
  for (const LoaderOptions& options : std::vector<LoaderOptions>{{.tail = Tail::drop, .evaluation = true},
                                                                 {.tail = Tail::carry, .evaluation = true},
                                                                 {.epochs = 2, .evaluation = true}}) {
    EXPECT_ERROR(make(options), invalid_argument, {"evaluation is true"});
  }
  EXPECT_ERROR(Loader(Mixture{.datasets = {{counting(4)}}}, {.evaluation = true}), invalid_argument,
               {"evaluation is true, of a mixture"});
}

// ---- how many shards there are ----

TEST(Shards, AreOneUnderNoneWhichIsThenTheDatasetsOrder) {
  Loader loader(counting(1000), {.shuffle = Shuffle::none, .workers = 2});
  EXPECT_EQ(rest_of(loader), numbers_from(0, 1000));
  EXPECT_EQ(loader.options().shards, 1);
}

TEST(Shards, Are256WhereTheyAreAskedForOrMix) {
  for (const LoaderOptions& options :
       std::vector<LoaderOptions>{{.interleave = 4, .shuffle = Shuffle::none},
                                  {.shuffle = Shuffle::none, .rank_split = Split::by_shard},
                                  {.shuffle = Shuffle::none, .worker_split = Split::by_shard},
                                  {.shuffle = Shuffle::within},
                                  {.shuffle = Shuffle::block},
                                  {}}) {
    EXPECT_EQ(Loader(counting(1000), options).options().shards, 256);
  }
  const Mixture mixture{.datasets = {{counting(1000)}, {counting(10)}}};
  EXPECT_EQ(Loader(mixture, {}).options().shards, 256);
  EXPECT_EQ(Loader(mixture, {.shuffle = Shuffle::none}).options().shards, 1);
}

}  // namespace rota::test::loader_test
