// rota::Run is held against the loaders that it is the order of.

#include "rota/run.hpp"

#include <nlohmann/json.hpp>

#include "core/state_text.hpp"
#include "loader/course.hpp"

namespace rota::test::run_test {

using nlohmann::json;

/// What a rank is handed, without data.
using Handed = std::tuple<Position, Position, std::int64_t, std::int64_t, Numbers, std::vector<SlotKind>,
                          Numbers, std::vector<std::int32_t>, Numbers>;

Handed handed(const Batch& batch) {
  return {batch.start(),
          batch.end(),
          batch.global_size(),
          batch.global_real(),
          ids_of(batch),
          {batch.kinds().begin(), batch.kinds().end()},
          {batch.epochs().begin(), batch.epochs().end()},
          {batch.datasets().begin(), batch.datasets().end()},
          {batch.slots().begin(), batch.slots().end()}};
}

Handed handed(const RunSlice& slice) {
  Numbers ids;
  for (const SampleId id : slice.ids) ids.push_back(id.value);
  return {slice.start, slice.end,    slice.global_size, slice.global_real, ids,
          slice.kinds, slice.epochs, slice.datasets,    slice.slots};
}

Handed handed(const rota::Run& run, const Loader& loader) {
  RunSlice slice;
  EXPECT_TRUE(slice_of(run, slice, loader.world(), loader.options()));
  return handed(slice);
}

/// A loader of a random rank of a random world, of any kind of data.
Loader random_loader(std::mt19937_64& random) {
  const Course course = random_course(kCourses[random() % kCourses.size()], random);
  const int size = static_cast<int>(draw(random, 1, 6));
  return course.make(World{.rank = static_cast<int>(draw(random, 0, size - 1)), .size = size});
}

/// Both go elsewhere, or on with other batches, or weights.
void change(std::mt19937_64& random, Loader& loader, rota::Run& run, const std::vector<Position>& seen) {
  const std::int64_t which = draw(random, 0, 9);
  if (which == 0) {
    const std::int64_t size = draw(random, 1, 40);
    loader.set_global_batch_size(size);
    run.set_global_batch_size(size);
  }
  if (which == 1 && run.mixture() != nullptr) {
    std::vector<double> weights;
    for (std::size_t d = 0; d < run.mixture()->weights.size(); ++d)
      weights.push_back(static_cast<double>(draw(random, 1, 9)));
    loader.set_weights(weights);
    run.set_weights(weights);
  }
  if (which == 2 && run.mixture() == nullptr) {
    const Position& to = seen[random() % seen.size()];
    loader.seek(to);
    run.seek(to);
  }
}

TEST(Run, GivesEachRankOfAnyWorldWhatALoaderHandsOut) {
  for_seeds(500, [&](std::uint64_t, std::mt19937_64& random) {
    Loader loader = random_loader(random);
    rota::Run run = loader.run();
    std::vector<Position> seen{run.position()};
    for (int steps = 0; steps < 40; ++steps) {
      change(random, loader, run, seen);
      ASSERT_EQ(loader.run(), run);
      const rota::Run before = run;
      const auto batch = loader.next();
      ASSERT_EQ(batch.has_value(), !run.is_over());
      if (!batch) break;
      ASSERT_EQ(handed(run, loader), handed(*batch));
      ASSERT_TRUE(run.advance());
      ASSERT_EQ(run.position(), loader.position());
      ASSERT_EQ(handed(before, loader), handed(*batch)) << "a copy stays where it was";
      seen.push_back(run.position());
    }
  });
}

/// A run of legs, each by a loader of its own in some world with a batch size of its own: what the first rank
/// was handed in each step, and since which step all is as it is now.
class Chain {
 public:
  explicit Chain(std::mt19937_64& random)
      : random_(random), course_(random_course(kCourses[random() % kCourses.size()], random)) {}

  /// False at the end of the run.
  bool go_on() {
    if (draw(random_, 0, 1) == 0) course_.options.global_batch_size = draw(random_, 1, 40);
    Loader loader = course_.make(World{});
    if (!text_.empty()) restore(loader, text_);
    bool is_there = true;
    for (std::int64_t steps = draw(random_, 0, 6); steps > 0 && is_there; --steps) {
      if (draw(random_, 0, 7) == 0) {
        const std::int64_t size = draw(random_, 1, 40);
        loader.set_global_batch_size(size);
        course_.options.global_batch_size = size;
      }
      const auto batch = loader.next();
      is_there = batch.has_value();
      if (batch) trained_.push_back(handed(*batch));
    }
    text_ = state(loader);
    data_ = loader.run().data();
    return is_there;
  }

  void expect_known() const {
    const rota::Run run = rota::Run::from(text_, data_);
    ASSERT_EQ(run.state(), text_);
    const auto steps = std::ssize(trained_);
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto then = run.at(step);
      ASSERT_TRUE(then) << "step " << step;
      RunSlice slice;
      ASSERT_TRUE(slice_of(*then, slice, World{}, course_.options));
      ASSERT_EQ(handed(slice), trained_[static_cast<std::size_t>(step)]);
    }
    ASSERT_EQ(run.at(steps).has_value(), !run.is_over());
  }

 private:
  std::mt19937_64& random_;
  Course course_;
  std::string text_;
  std::vector<RunData> data_;
  std::vector<Handed> trained_;
};

TEST(Run, OfAStateTellsEachStepWhateverWasChangedOnTheWay) {
  for_seeds(100, [&](std::uint64_t, std::mt19937_64& random) {
    Chain chain(random);
    for (int legs = 0; legs < 12; ++legs) {
      const bool is_there = chain.go_on();
      ASSERT_NO_FATAL_FAILURE(chain.expect_known());
      if (!is_there) break;
    }
  });
}

TEST(Run, AtReachesAnyStepOfAMixtureToo) {
  const RunOptions how{.global_batch_size = 7, .weights = {3, 1, 2}, .end = MixtureEnd::all_exhausted};
  const rota::Run begun({{.samples = 100}, {.samples = 30}, {.samples = 55}}, how);
  RunSlice walked;
  RunSlice jumped;
  std::int64_t step = 0;
  for (rota::Run run = begun; run.slice(walked); run.advance(walked), ++step) {
    ASSERT_TRUE(begun.at(step)->slice(jumped));
    ASSERT_EQ(handed(jumped), handed(walked));
    for (std::size_t i = 0; i < walked.ids.size(); ++i) {
      ASSERT_EQ(begun.when(walked.ids[i], walked.epochs[i])->step, step);
    }
  }
  EXPECT_EQ(begun.at(step), std::nullopt);
}

// ---- texts ----

TEST(Run, AndLoadersReadOneAnothersStates) {
  for_seeds(100, [&](std::uint64_t, std::mt19937_64& random) {
    const Course course = random_course(kCourses[random() % kCourses.size()], random);
    Loader loader = course.make(World{});
    for (std::int64_t steps = draw(random, 0, 5); steps > 0; --steps) (void)loader.next();
    rota::Run run = rota::Run::from(state(loader), loader.run().data());
    ASSERT_EQ(run, loader.run());
    ASSERT_EQ(run.state(), state(loader)) << "with what a run does not use";
    (void)run.advance();
    (void)loader.next();
    ASSERT_EQ(run.state(), state(loader));
    ASSERT_EQ(rota::Run::from(run.recipe()), run);
    Loader other = course.make(World{.rank = 1, .size = 3});
    restore(other, run.state());
    ASSERT_EQ(other.run(), run);
    restore(other, run.recipe());
    ASSERT_EQ(other.run(), run);
  });
}

TEST(Run, OfEqualShardsNeedsNoMoreThanAText) {
  rota::Run one(1000, {.global_batch_size = 7, .seed = 5});
  const RunOptions mixed{.global_batch_size = 7, .weights = {2, 1}, .end = MixtureEnd::steps, .steps = 90};
  rota::Run two({{.samples = 100}, {.samples = 60}}, mixed);
  for (rota::Run* run : {&one, &two}) {
    for (int step = 0; step < 30; ++step) ASSERT_TRUE(run->advance());
    EXPECT_EQ(rota::Run::from(run->state()), *run);
  }
}

TEST(Run, OfOtherShardsNeedsTheirLengthsWhichARecipeHas) {
  const std::vector<RunData> files{{.samples = 100, .shard_lengths = {30, 0, 50, 20}}};
  const std::vector<RunData> units{{.samples = 10, .block_lengths = {4, 4, 2}}};
  const rota::Run by_files(files, {.global_batch_size = 7});
  const rota::Run by_units(units,
                           {.global_batch_size = 3, .shuffle = Shuffle::block, .block = {.samples = 0}});
  for (const rota::Run* run : {&by_files, &by_units}) {
    EXPECT_ERROR(rota::Run::from(run->state()), unsupported, {"digest of their lengths", "recipe()"});
    EXPECT_EQ(rota::Run::from(run->state(), run->data()), *run);
    EXPECT_EQ(rota::Run::from(run->recipe()).data(), run->data());
    EXPECT_EQ(rota::Run::from(run->recipe()).state(), run->state());
  }
  const std::vector<RunData> others{{.samples = 100, .shard_lengths = {30, 50, 0, 20}}};
  EXPECT_ERROR(rota::Run::from(by_files.state(), others), mismatch, {"lengths", "digest"});
  const std::vector<RunData> joined{{.samples = 100, .shard_lengths = {30, 50, 20}}};
  EXPECT_ERROR(rota::Run::from(by_files.state(), joined), mismatch, {"3 shards, and not 4"});
  const std::vector<RunData> twos{{.samples = 10, .shard_lengths = {2, 2, 2, 2, 2}}};
  const std::vector<RunData> fives{{.samples = 10, .shard_lengths = {5, 5}}};
  EXPECT_ERROR(rota::Run::from(rota::Run(twos, {}).state(), fives), mismatch, {"shards"});
  const std::vector<RunData> fewer{{.samples = 99, .shard_lengths = {30, 0, 50, 19}}};
  EXPECT_ERROR(rota::Run::from(by_files.state(), fewer), mismatch, {"lengths"});
  const std::vector<RunData> wrong{{.samples = 100, .shard_lengths = {30, 50}}};
  EXPECT_ERROR(rota::Run::from(by_files.state(), wrong), mismatch, {"all 2 shards together have 80"});
}

/// With a digest of its own, so that no more is wrong than what was changed.
std::string changed(const std::string& text, const std::function<void(json&)>& how) {
  json state = json::parse(text);
  how(state);
  state["digest"] = internal::digest_of(state);
  return state.dump();
}

TEST(Run, RefusesTextsThatAreDamagedOrOfAnotherKind) {
  const std::string text = rota::Run(100, {.global_batch_size = 7}).state();
  EXPECT_EQ(rota::Run::from(changed(text, [](json&) {})).state().size(), text.size());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_ERROR(rota::Run::from(text.substr(0, size)), corrupt, {"read a run from a text"});
  }
  const auto refuses = [&](ErrorCode code, const std::vector<std::string>& words, const auto& how) {
    EXPECT_THAT(error_of([&] { (void)rota::Run::from(changed(text, how)); }), is_error(code, words));
  };
  refuses(unsupported, {"version 4"}, [](json& state) { state["rota_state"] = 4; });
  refuses(mismatch, {"version 7"}, [](json& state) { state["order"]["version"] = 7; });
  refuses(mismatch, {"StreamLoader"}, [](json& state) { state["kind"] = "StreamLoader"; });
  refuses(corrupt, {"shuffle", "none, within"}, [](json& state) { state["order"]["shuffle"] = "x"; });
  refuses(corrupt, {"seed"}, [](json& state) { state["order"]["seed"] = "-1"; });
  refuses(corrupt, {"seed"}, [](json& state) { state["order"]["seed"] = "18446744073709551616"; });
  refuses(corrupt, {"shards"}, [](json& state) { state["order"]["shards"] = 0; });
  refuses(corrupt, {"dataset"}, [](json& state) { state["order"]["dataset"] = "abc"; });
  refuses(corrupt, {"epochs"}, [](json& state) { state["run"]["epochs"] = "many"; });
  refuses(corrupt, {"run.global_batch_size", "is 0"},
          [](json& state) { state["run"]["global_batch_size"] = 0; });
  refuses(corrupt, {"an epoch has 100"}, [](json& state) { state["position"]["consumed"] = 101; });
  refuses(corrupt, {"consumed"}, [](json& state) { state["position"]["consumed"] = -1; });
  refuses(unsupported, {"lengths"}, [](json& state) { state["order"]["lengths"] = std::string(32, '0'); });
  std::string flipped = text;
  flipped[text.find("\"step\":0") + 7] = '1';
  EXPECT_ERROR(rota::Run::from(flipped), corrupt, {"digest"});
}

TEST(Run, HasWhatIsOpenFirstInAnyWorldAndNoStepsOfIt) {
  const RunOptions options{.global_batch_size = 7, .shards = 4, .tail = Tail::pad, .epochs = 2};
  const auto with_open = [&](json& state) {
    state["rota_state"] = 2;
    state["position"] = {{"epoch", 1}, {"consumed", 14}, {"step", 17}};
    state["open"] = "BQUAAGYB";  // 5 of them: ordinals 5, 6, 7, 110 and 112, of which 100 are of epoch 0
  };
  const std::string text = changed(rota::Run(100, options).state(), with_open);
  const rota::Run run = rota::Run::from(text);
  EXPECT_EQ(run.state().size(), text.size());
  EXPECT_EQ(rota::Run::from(run.state()), run);
  EXPECT_EQ(run.open().epochs, (Numbers{0, 0, 0, 1, 1}));
  for (const int ranks : {1, 2, 3}) {
    std::int64_t samples = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      RunSlice slice;
      ASSERT_TRUE(run.slice(slice, {.rank = rank, .size = ranks}));
      EXPECT_TRUE(slice.is_again());
      EXPECT_EQ(slice.global_real, 5);
      EXPECT_EQ(slice.global_size, 7);
      samples += std::ranges::count(slice.kinds, SlotKind::sample);
    }
    EXPECT_EQ(samples, 5);
  }
  rota::Run walked = run;
  ASSERT_TRUE(walked.advance());
  EXPECT_EQ(walked.position(), run.position());
  EXPECT_TRUE(walked.open().ids.empty());
  EXPECT_EQ(*run.at(17), walked);
  EXPECT_FALSE(walked == run);
}

TEST(Run, RefusesSamplesThatCannotBeOpen) {
  const std::string text = rota::Run(100, {.global_batch_size = 7}).state();
  const auto with_open = [&](const std::string& open) {
    return changed(text, [&](json& state) {
      state["rota_state"] = 2;
      state["position"]["consumed"] = 7;
      state["open"] = open;
    });
  };
  EXPECT_EQ(rota::Run::from(with_open("AQY=")).open().ids.size(), 1U);
  // At the place; cut, also within a number; fewer than are named; a number of more bytes than it takes; too
  // large.
  for (const char* open : {"AQc=", "AQ==", "AoY=", "AgE=", "AYAA", "AQH/////////////////////"})
    EXPECT_ERROR(rota::Run::from(with_open(open)), corrupt, {"cannot be open"}) << open;
  EXPECT_ERROR(rota::Run::from(with_open("not base64!")), corrupt, {"base64"});
  const auto part = changed(text, [](json& state) {
    state["rota_state"] = 2;
    state["part"] = {{"rank", 1}, {"size", 3}};
  });
  EXPECT_ERROR(rota::Run::from(part), mismatch, {"part of rank 1 of 3", "merge_states"});
}

TEST(Run, RefusesStepsRanksAndLengthsThatThereAreNot) {
  const rota::Run run(100, {.global_batch_size = 7, .tail = Tail::drop});
  EXPECT_ERROR(run.at(-1), out_of_range, {"step -1"});
  EXPECT_EQ(run.at(14), std::nullopt);
  RunSlice slice;
  EXPECT_ERROR(run.slice(slice, {.rank = 3, .size = 3}), invalid_argument, {"rank 3", "3"});
  EXPECT_ERROR(run.when({100}, 0), out_of_range, {"samples 0 to 99"});
  EXPECT_ERROR(run.when({1}, 0, 0), invalid_argument, {"0"});
  EXPECT_ERROR(rota::Run(-1), invalid_argument, {"samples is -1"});
  EXPECT_ERROR(rota::Run(1, {.global_batch_size = 0}), invalid_argument, {"global_batch_size is 0"});
  EXPECT_ERROR(rota::Run(1, {.steps = 3}), invalid_argument, {"steps", "weights"});
  using Data = std::vector<RunData>;
  EXPECT_ERROR(rota::Run(Data{{.samples = 5, .shard_lengths = {7, -2}}}, {}), invalid_argument, {"has 7"});
  EXPECT_ERROR(rota::Run(Data{{.samples = 5, .shard_lengths = {3, -2}}}, {}), invalid_argument, {"has -2"});
  EXPECT_ERROR(rota::Run(Data{{.samples = 5, .block_lengths = {5}}}, {}), invalid_argument,
               {"block_lengths"});
  EXPECT_ERROR(rota::Run(Data{}, {}), invalid_argument, {"0 datasets"});
  EXPECT_ERROR(rota::Run(Data{{.samples = 5}, {.samples = 0}}, {.weights = {1, 1}}), invalid_argument,
               {"samples is 0"});
  EXPECT_ERROR(rota::Run(Data{{.samples = 5, .shard_lengths = {2, 3}}}, {.shards = 3}), invalid_argument,
               {"has 2 shards, and not 3"});
  EXPECT_ERROR(rota::Run(1, {.end = MixtureEnd::all_exhausted}), invalid_argument, {"end", "weights"});
  EXPECT_ERROR(rota::Run(Data{{.samples = 5}}, {.weights = {1}, .steps = 5}), invalid_argument,
               {"steps is 5", "left out"});
  EXPECT_ERROR(rota::Run(0).when({0}, 0), out_of_range, {"no samples"});
}

TEST(Run, GoesBehindNothingButItsNextBatch) {
  const rota::Run begun(100, {.global_batch_size = 4, .epochs = 5});
  RunSlice slice;
  ASSERT_TRUE(begun.slice(slice));
  rota::Run run = begun;
  run.advance(slice);
  EXPECT_EQ(run, *begun.at(1));
  EXPECT_ERROR(run.advance(slice), invalid_argument, {"step 0", "step 1"});
  run = begun;
  run.set_global_batch_size(8);
  EXPECT_ERROR(run.advance(slice), invalid_argument, {"not the next one", "take a slice"});
  run = begun;
  run.seek({.epoch = 1, .consumed = 0, .step = 0});
  EXPECT_ERROR(run.advance(slice), invalid_argument, {"not the next one"});
  for (const Position end : {Position{0, 5, 1}, Position{5, 0, 1}, Position{0, -4, 1}, Position{0, 4, 2}}) {
    RunSlice forged = slice;
    forged.end = end;
    run = begun;
    EXPECT_ERROR(run.advance(forged), invalid_argument, {"not the next one"});
    EXPECT_EQ(run, begun);
  }
  run = *begun.at(begun.steps() - 1);
  ASSERT_TRUE(run.slice(slice) && run.advance());
  EXPECT_ERROR(run.advance(slice), invalid_argument, {"not the next one"});
}

TEST(Run, IsOverWhereNoStepCanBeCounted) {
  const RunOptions most{.global_batch_size = 1, .tail = Tail::carry, .epochs = kEndless};
  const RunOptions mixed{.global_batch_size = 1, .weights = {1}, .end = MixtureEnd::steps, .steps = kEndless};
  for (const rota::Run& begun : {rota::Run(3, most), rota::Run({{.samples = 3}}, mixed)}) {
    EXPECT_EQ(begun.at(kMaxCount), std::nullopt);
    rota::Run run = *begun.at(kMaxCount - 1);
    EXPECT_TRUE(run.advance());
    EXPECT_FALSE(run.advance());
    EXPECT_TRUE(run.is_over());
    EXPECT_EQ(run.position().step, kMaxCount);
    EXPECT_EQ(rota::Run::from(run.state()).position(), run.position());
  }
}

TEST(Run, ForgetsNoChangeWhereItIsSentToItsPlaceButThePastOfOtherEpochs) {
  rota::Run run(1000, {.global_batch_size = 32});
  for (const std::int64_t size : {96, 64}) {
    (void)run.advance();
    run.set_global_batch_size(size);
  }
  run.seek(run.position());  // where batches of 64 lead from the beginning on, too
  EXPECT_EQ(run.at(1)->global_batch_size(), 96);
  const auto make = [](std::int64_t epochs) {
    return Loader(counting(10),
                  {.global_batch_size = 4, .tail = Tail::carry, .epochs = epochs, .workers = 0});
  };
  Loader whole = make(5);
  for (int steps = 0; steps < 3; ++steps) (void)whole.next();
  Loader shorter = make(1);
  restore(shorter, state(whole));
  EXPECT_ERROR(shorter.run().at(2), unsupported, {"not known"});
}

TEST(Run, HasNothingForTheLastOfTheMostRanksAndNoFilesOfItsOwn) {
  RunSlice slice;
  const World last{.rank = std::numeric_limits<int>::max() - 1, .size = std::numeric_limits<int>::max()};
  ASSERT_TRUE(rota::Run(100).slice(slice, last, Split::interleaved));
  EXPECT_THAT(slice.ids, IsEmpty());
  EXPECT_ERROR(rota::Run(100, LoaderOptions{.shards = kFileShards}.run()), invalid_argument, {"shards is"});
}

TEST(Run, IsAskedFromManyThreadsAtOnce) {
  const rota::Run run(std::vector<RunData>{{.samples = 60, .shard_lengths = {10, 5, 0, 45}}},
                      {.global_batch_size = 7});
  RunSlice whole;
  ASSERT_TRUE(run.slice(whole));
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      RunSlice slice;
      for (std::int64_t step = 0; step < 200; ++step) {
        EXPECT_TRUE(run.slice(slice));
        EXPECT_EQ(handed(slice), handed(whole));
        EXPECT_TRUE(run.when({step % 60}, 0));
        const rota::Run copy = run;
        EXPECT_TRUE(copy.at(step % 9)->slice(slice));
      }
    });
  }
}

}  // namespace rota::test::run_test
