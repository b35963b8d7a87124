// Runs with plans, held against runs that are changed by hand, step by step, as a person would.

#include <numbers>

#include "order/random_plan.hpp"
#include "order/run_order.hpp"
#include "order/weighted_turns.hpp"
#include "source/reading.hpp"

namespace rota::test::stages_test {

/// A run of some hundred samples, of one dataset or of several, and of which data.
struct Setting {
  std::vector<RunData> data;
  RunOptions options;

  explicit Setting(std::mt19937_64& random) {
    const auto datasets = static_cast<std::size_t>(draw(random, 0, 3));
    for (std::size_t d = 0; d < std::max<std::size_t>(datasets, 1); ++d)
      data.push_back({.samples = draw(random, 1, 300)});
    options = {.global_batch_size = draw(random, 1, 40),
               .shards = draw(random, 1, 12),
               .shuffle = static_cast<Shuffle>(draw(random, 0, 2)),
               .seed = random(),
               .tail = static_cast<Tail>(draw(random, 0, 3)),
               .epochs = draw(random, 1, 3),
               .weights = datasets == 0 ? std::vector<double>() : random_weights(random, datasets),
               .plan = random_plan(random, datasets, but_the_first(random))};
    if (datasets > 0) options.end = static_cast<MixtureEnd>(draw(random, 0, 1));
  }
  [[nodiscard]] rota::Run make() const { return rota::Run(data, options); }
  // Half of the samples, and never all of a dataset.
  [[nodiscard]] std::vector<SampleId> but_the_first(std::mt19937_64& random) const {
    std::vector<SampleId> some;
    std::int64_t first = 0;
    for (const RunData& one : data) {
      for (std::int64_t id = first + 1; id < first + one.samples; id += draw(random, 1, 3))
        some.push_back({id});
      first += one.samples;
    }
    return some;
  }
};

using Handed = std::tuple<Position, Position, Numbers, Numbers, std::vector<SlotKind>, std::int64_t>;

Handed handed(const RunSlice& slice) {
  Numbers ids;
  for (const SampleId id : slice.ids) ids.push_back(id.value);
  return {slice.start, slice.end, ids, slice.epochs, slice.kinds, slice.global_real};
}

std::vector<Handed> all_of(rota::Run run, std::size_t most = 400) {
  std::vector<Handed> steps;
  for (RunSlice slice; steps.size() < most && run.slice(slice); run.advance(slice))
    steps.push_back(handed(slice));
  return steps;
}

/// Sets by hand what the plan says, at the step that says it: counts of samples are those of the place,
/// tokens those of all turns so far. Knows no weights that go in a line.
class ByHand {
 public:
  explicit ByHand(const Setting& setting)
      : plan_(setting.options.plan),
        options_(setting.options),
        data_(setting.data),
        run_(without_plan(setting)) {}

  std::vector<Handed> walk(std::size_t most = 400) {
    std::vector<Handed> steps;
    RunSlice slice;
    for (std::size_t step = 0; steps.size() < most && step < 2 * most; ++step) {
      begin_stages();
      if (!run_.slice(slice)) break;
      const bool is_left_out = std::ranges::any_of(plan_.skip, [&](const StepRange& range) {
        return slice.start.step >= range.begin && slice.start.step < range.end;
      });
      const RunSlice next = slice;
      leave_out(slice);
      if (!is_left_out) steps.push_back(handed(slice));
      run_.advance(next);
    }
    return steps;
  }

 private:
  static rota::Run without_plan(const Setting& setting) {
    RunOptions options = setting.options;
    options.plan = {};
    return rota::Run(setting.data, options);
  }
  [[nodiscard]] double counted(Stage::Unit unit) const {
    const Position at = run_.position();
    const bool is_mixture = run_.mixture() != nullptr;
    const double samples =
        static_cast<double>(at.consumed + (is_mixture ? 0 : at.epoch * data_.front().samples));
    if (unit == Stage::Unit::steps) return static_cast<double>(at.step);
    if (unit == Stage::Unit::samples) return samples;
    if (!is_mixture) return samples * plan_.tokens_per_sample.front();
    double tokens = 0;
    const WeightedTurns turns(*run_.mixture());
    for (std::size_t d = 0; d < data_.size(); ++d)
      tokens += static_cast<double>(turns.count(d, at.consumed)) * plan_.tokens_per_sample[d];
    return tokens;
  }
  void begin_stages() {
    for (; next_ < plan_.stages.size() &&
           counted(plan_.stages[next_].unit) >= static_cast<double>(plan_.stages[next_].begin);
         ++next_) {
      const Stage& stage = plan_.stages[next_];
      if (stage.global_batch_size != 0) run_.set_global_batch_size(stage.global_batch_size);
      std::vector<double> weights = stage.weights;
      for (std::size_t d = 0; d < weights.size() && plan_.are_weights_of_tokens; ++d)
        weights[d] /= plan_.tokens_per_sample[d];
      if (!weights.empty() && quantise(weights) != run_.mixture()->weights) run_.set_weights(weights);
      left_out_.insert(stage.leave_out.begin(), stage.leave_out.end());
    }
  }
  // Marks its slots; in padding, the next sample of the dataset is in its place.
  void leave_out(RunSlice& slice) const {
    for (std::size_t i = 0; i < slice.ids.size(); ++i) {
      SampleId& id = slice.ids[i];
      if (!left_out_.contains(id)) continue;
      if (slice.kinds[i] == SlotKind::sample) {
        slice.kinds[i] = SlotKind::skipped;
        --slice.global_real;
        continue;
      }
      std::int64_t first = 0;
      for (std::int32_t d = 0; d < slice.datasets[i]; ++d)
        first += data_[static_cast<std::size_t>(d)].samples;
      const std::int64_t size = data_[static_cast<std::size_t>(slice.datasets[i])].samples;
      while (left_out_.contains(id)) id.value = first + (id.value - first + 1) % size;
    }
  }

  RunPlan plan_;
  RunOptions options_;
  std::vector<RunData> data_;
  rota::Run run_;
  std::size_t next_ = 0;  // stage
  std::set<SampleId> left_out_;
};

TEST(Stages, AreWhatAPersonWouldSetByHandAtTheFirstStepThatStartsThere) {
  for_seeds(400, [](std::uint64_t, std::mt19937_64& random) {
    Setting setting(random);
    for (Stage& stage : setting.options.plan.stages) stage.toward.clear();
    ASSERT_EQ(all_of(setting.make()), ByHand(setting).walk());
  });
}

TEST(Stages, AreFoundFromAnyPlaceAndSoIsEachSample) {
  for_seeds(200, [](std::uint64_t, std::mt19937_64& random) {
    const Setting setting(random);
    const rota::Run begun = setting.make();
    RunSlice slice;
    RunSlice there;
    rota::Run run = begun;
    std::int64_t next = 0;
    for (int steps = 0; steps < 60 && run.slice(slice); ++steps, run.advance(slice)) {
      const std::int64_t step = slice.start.step;
      for (; next < step; ++next) ASSERT_TRUE(begun.at(next)) << "left out, and has its place";
      next = step + 1;
      ASSERT_TRUE(begun.at(step)->slice(there));
      ASSERT_EQ(handed(there), handed(slice));
      ASSERT_EQ(run.at(0)->position(), Position());
      for (std::size_t i = 0; i < slice.ids.size(); i += 7) {
        if (slice.kinds[i] == SlotKind::pad) continue;
        const auto when = run.when(slice.ids[i], slice.epochs[i]);
        const bool is_skipped = slice.kinds[i] == SlotKind::skipped;
        ASSERT_EQ(when, (BatchSlot{.step = step, .slot = slice.slots[i], .is_skipped = is_skipped}));
      }
      const rota::Run restored = rota::Run::from(run.state(), setting.data);
      ASSERT_EQ(restored, run);
      ASSERT_EQ(restored.state(), run.state());
      if (steps % 20 == 0) ASSERT_EQ(all_of(restored, 20), all_of(run, 20));
    }
    if (setting.options.weights.empty() && run.is_over()) {
      std::int64_t last = run.position().step;  // and what is left out at the end
      for (; begun.at(last); ++last) continue;
      ASSERT_EQ(begun.steps(), last);
    }
  });
}

TEST(Stages, OfSkippedStepsKeepNumbersAndPlaces) {
  const rota::Run plain(1000, {.global_batch_size = 10});
  const rota::Run run(1000, {.global_batch_size = 10, .plan = {.skip = {{20, 23}, {25, 26}, {97, 400}}}});
  EXPECT_EQ(run.steps(), 100);
  Numbers steps;
  RunSlice slice;
  RunSlice same;
  for (rota::Run at = run; at.slice(slice); at.advance(slice)) {
    steps.push_back(slice.start.step);
    ASSERT_TRUE(plain.at(steps.back())->slice(same));
    EXPECT_EQ(slice.ids, same.ids);
  }
  EXPECT_THAT(steps, SizeIs(100 - 3 - 1 - 3));
  EXPECT_THAT(steps, AllOf(Contains(19), Contains(23), Contains(24), Contains(26), Contains(96)));
  ASSERT_TRUE(plain.at(21)->slice(same));
  EXPECT_EQ(run.when(same.ids[4], 0), (BatchSlot{.step = 21, .slot = 4, .is_skipped = true}));
  EXPECT_TRUE(run.at(98)->is_over());
}

// Batches grow with the first step at whose start as many samples, or tokens, were consumed.
TEST(Stages, OfBatchSizesAreThoseOfMegatronsSchedules) {
  constexpr std::int64_t kTokens = 2048;
  const std::string text =
      R"({"stages": [{"tokens": 0, "global_batch_size": 768}, {"tokens": "250M", "global_batch_size": 1536},
                     {"tokens": "0.5B", "global_batch_size": 3072}], "tokens_per_sample": 2048})";
  const rota::Run run(std::int64_t{1} << 40, {.global_batch_size = 1, .plan = parse_plan(text)});
  std::int64_t consumed = 0;
  RunSlice slice;
  for (std::int64_t step = 0; step < 600; ++step) {
    const std::int64_t tokens = consumed * kTokens;
    const std::int64_t size = tokens < 250'000'000 ? 768 : tokens < 500'000'000 ? 1536 : 3072;
    ASSERT_TRUE(run.at(step)->slice(slice, {.size = 3072}));
    ASSERT_EQ(slice.global_size, size);
    ASSERT_EQ(slice.start.consumed, consumed);
    consumed += size;
  }
}

TEST(Stages, GoInALineBy32JumpsAndMeanWhatTheLineDoes) {
  const RunPlan plan{.stages = {{.weights = {1, 0}, .toward = {0, 1}}, {.begin = 64'000}}};
  const rota::Run run(
      {{.samples = 40'000}, {.samples = 70'000}},
      {.global_batch_size = 10, .weights = {1, 1}, .end = MixtureEnd::all_exhausted, .plan = plan});
  const auto share_of = [&](std::int64_t step) {
    const std::vector<std::int64_t> weights = run.at(step)->mixture()->weights;
    return static_cast<double>(weights[1]) / static_cast<double>(weights[0] + weights[1]);
  };
  std::set<double> shares;
  double sum = 0;
  for (std::int64_t step = 0; step < 6400; ++step) {
    EXPECT_NEAR(share_of(step), (static_cast<double>(step) + 0.5) / 6400, 1.0 / 32);
    shares.insert(share_of(step));
    sum += share_of(step);
  }
  EXPECT_THAT(shares, SizeIs(32));
  EXPECT_NEAR(sum / 6400, 0.5, 1e-3);
  EXPECT_EQ(share_of(6400), 1);
}

TEST(Stages, ByTokensGiveEachDatasetItsShareOfThese) {
  const RunPlan plan{
      .stages = {{.weights = {1, 1}}}, .tokens_per_sample = {100, 300}, .are_weights_of_tokens = true};
  const rota::Run run({{.samples = 4000}, {.samples = 4000}}, {.weights = {1, 1}, .plan = plan});
  EXPECT_THAT(run.mixture()->weights, ElementsAre(3, 1));
}

TEST(Stages, MayBeOthersWhereTheyAreNotPast) {
  for_seeds(300, [](std::uint64_t, std::mt19937_64& random) {
    Setting setting(random);
    const RunPlan plan = setting.options.plan;
    rota::Run run = setting.make();
    const std::int64_t until = draw(random, 0, 12);
    while (run.position().step < until && run.advance()) continue;
    const std::vector<Handed> same = all_of(run);
    run.replan(plan);
    ASSERT_EQ(all_of(run), same);

    Setting other = setting;
    other.options.plan = random_plan(random, setting.options.weights.size(), setting.but_the_first(random));
    std::vector<Handed> past = all_of(setting.make());
    std::erase_if(past, [&](const Handed& one) { return std::get<0>(one).step >= run.position().step; });
    std::vector<Handed> others = all_of(other.make());
    const std::vector<Handed> whole = others;
    std::erase_if(others, [&](const Handed& one) { return std::get<0>(one).step >= run.position().step; });
    const bool is_same = others == past;
    rota::Run changed = run;
    const auto error = error_of([&] { changed.replan(other.options.plan); });
    if (error) {
      ASSERT_THAT(error, is_error(ErrorCode::mismatch,
                                  {"is past, and was", "leave stages and skipped steps as they are"}));
      ASSERT_EQ(all_of(changed), same) << "it stays as it was";
    } else {
      ASSERT_EQ(others, past);
      std::ranges::copy(all_of(changed), std::back_inserter(others));
      others.resize(std::min(others.size(), whole.size()));
      ASSERT_EQ(others, whole);
    }
    ASSERT_TRUE(is_same || error);
  });
}

TEST(Stages, HoldWhatIsSetByHandUntilTheNextOneBegins) {
  const RunPlan plan{
      .stages = {{.begin = 100, .global_batch_size = 20}, {.begin = 500, .global_batch_size = 30}}};
  rota::Run run(1000, {.global_batch_size = 10, .plan = plan});
  for (int steps = 0; steps < 14; ++steps) ASSERT_TRUE(run.advance());
  run.set_global_batch_size(7);
  EXPECT_EQ(run.position().consumed, 180);
  const std::string text = run.state();
  Numbers sizes;
  RunSlice slice;
  for (rota::Run at = rota::Run::from(text); at.slice(slice); at.advance(slice))
    sizes.push_back(slice.global_size);
  EXPECT_EQ(std::ranges::count(sizes, 7), (500 - 180 + 6) / 7);
  EXPECT_EQ(sizes.end()[-2], 30);
  EXPECT_EQ(run.at(3)->global_batch_size(), 10);
  run.restart();
  EXPECT_EQ(all_of(run), all_of(rota::Run(1000, {.global_batch_size = 10, .plan = plan})));
}

// An epoch's last 14 samples are no batch of the stage that begins there.
TEST(Stages, ThatEndAnEpochByTheirSizeDoSoWhetherStepsWereTakenOrNot) {
  const RunPlan plan{.stages = {{.begin = 7, .unit = Stage::Unit::steps, .global_batch_size = 16}}};
  rota::Run walked(35, {.global_batch_size = 3, .tail = Tail::drop, .epochs = 2, .plan = plan});
  rota::Run there = *walked.at(7);
  for (int steps = 0; steps < 7; ++steps) ASSERT_TRUE(walked.advance());
  for (rota::Run* run : {&walked, &there}) run->set_global_batch_size(6);
  EXPECT_EQ(walked.position(), there.position());
  EXPECT_EQ(walked.position().epoch, 1);
  EXPECT_EQ(all_of(walked), all_of(there));

  rota::Run sought(35, {.global_batch_size = 16, .tail = Tail::drop, .epochs = 2});
  sought.seek({.epoch = 0, .consumed = 21, .step = 7});
  sought.set_global_batch_size(6);  // without a stage, whoever goes there may say what batches are
  EXPECT_EQ(sought.position().epoch, 0);
}

TEST(Stages, AreReplannedBehindAStepThatWasGoneBackToWhateverWasChangedLater) {
  rota::Run run(1000, {.global_batch_size = 10});
  for (int steps = 0; steps < 20; ++steps) ASSERT_TRUE(run.advance());
  run.set_global_batch_size(20);
  run.seek_step(5);
  run.replan({.stages = {{.begin = 10, .unit = Stage::Unit::steps, .global_batch_size = 15}}});
  EXPECT_EQ(run.at(30)->global_batch_size(), 15);
}

TEST(Stages, NeverBeginBeforeTheOneInFrontWhateverThatChanges) {
  for (const std::int64_t size : {1, 2}) {
    const rota::Run run(
        25, {.global_batch_size = 1,
             .plan = {.stages = {{.begin = 11, .unit = Stage::Unit::steps, .global_batch_size = size},
                                 {.begin = 9, .global_batch_size = 18}}}});
    EXPECT_EQ(run.at(10)->global_batch_size(), 1);
    EXPECT_EQ(run.at(11)->global_batch_size(), 18);
  }
}

TEST(Stages, GoInALineOfSharesWhateverTheirSums) {
  const RunPlan plan{.stages = {{.weights = {1, 0}, .toward = {0, 100}}, {.begin = 64'000}}};
  const rota::Run run(
      {{.samples = 40'000}, {.samples = 70'000}},
      {.global_batch_size = 10, .weights = {1, 1}, .end = MixtureEnd::all_exhausted, .plan = plan});
  const Numbers weights = run.at(3200)->mixture()->weights;
  EXPECT_NEAR(static_cast<double>(weights[1]) / static_cast<double>(weights[0] + weights[1]), 0.5, 1.0 / 32);
}

TEST(Stages, ThatAreSaidAgainKeepWhatWasSetByHand) {
  const RunPlan plan{.skip = {{20, 21}}};
  rota::Run run(200, {.global_batch_size = 5, .plan = plan});
  for (int steps = 0; steps < 3; ++steps) ASSERT_TRUE(run.advance());
  run.set_global_batch_size(2);
  run.seek_step(1);
  run.replan(plan);
  EXPECT_EQ(run.at(4)->global_batch_size(), 2);
}

TEST(Stages, AreNoneOfAPlanThatHasTokensAloneAndIsKept) {
  const rota::Run run(1000, {.plan = {.tokens_per_sample = {2.5}}});
  EXPECT_EQ(rota::Run::from(run.state()).plan(), run.plan());
}

TEST(Stages, ThatWereSetByHandInARunOfATextAreInItsState) {
  rota::Run run = rota::Run::from(
      rota::Run({{.samples = 100}, {.samples = 200}}, {.weights = {1, 1}, .end = MixtureEnd::all_exhausted})
          .state());
  ASSERT_TRUE(run.advance());
  run = rota::Run::from(run.state());
  run.set_weights(std::vector<double>{1, 3});
  EXPECT_EQ(rota::Run::from(run.state()).at(0)->mixture()->weights, (Numbers{1, 1}));
  EXPECT_ERROR(rota::Run({{.samples = 1, .name = "a"}, {.samples = 2}}, {.weights = {1, 1}}),
               invalid_argument, {"a name"});
}

TEST(Stages, AreTakenOnceHoweverOftenWeightsAreSetBeside) {
  RunPlan plan;
  for (std::int64_t s = 0; s < 256; ++s)
    plan.stages.push_back(
        {.begin = 1000 * s, .weights = {1.0 + std::sqrt(static_cast<double>(s)), 1, std::numbers::pi}});
  rota::Run run({{.samples = 1'000'000}, {.samples = 1'000'000}, {.samples = 1'000'000}},
                {.weights = {1, 1, 1}, .end = MixtureEnd::all_exhausted, .plan = plan});
  const auto begun = std::chrono::steady_clock::now();
  for (int times = 0; times < 20; ++times) {
    run.set_weights(std::vector<double>{1, 2, 3});
    ASSERT_TRUE(run.advance());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s) << "and not a minute";
  plan.stages.resize(257, plan.stages.back());
  EXPECT_ERROR(plan.validate(3), invalid_argument, {"the number of stages is 257"});
}

TEST(Stages, AreGoneToByStepsInEitherDirection) {
  const RunPlan plan{.stages = {{.begin = 100, .global_batch_size = 20}}, .skip = {{12, 14}}};
  rota::Run run(1000, {.global_batch_size = 10, .plan = plan});
  run.seek_step(13);
  EXPECT_EQ(run.position(), (Position{.consumed = 160, .step = 13}));
  EXPECT_EQ(all_of(run).size(), 41U);
  run.set_global_batch_size(1);
  run.seek_step(3);
  EXPECT_EQ(run.global_batch_size(), 10);
  EXPECT_EQ(run.at(15)->global_batch_size(), 1) << "what was changed by hand stays";
  EXPECT_ERROR(run.seek_step(100'000), out_of_range, {"fewer steps"});
  EXPECT_ERROR(run.seek_step(-1), out_of_range, {"begin with 0"});
}

TEST(Stages, KnowTheLast64ChangesByHandOfAState) {
  rota::Run run({{.samples = 5000}, {.samples = 5000}}, {.global_batch_size = 5, .weights = {1, 1}});
  std::vector<Handed> steps;
  RunSlice slice;
  for (int times = 0; times < 100; ++times) {
    run.set_weights(std::vector<double>{1.0, 1.0 + times % 3});
    if (times % 7 == 0) run.set_global_batch_size(5 + times % 2);
    ASSERT_TRUE(run.slice(slice));
    steps.push_back(handed(slice));
    run.advance(slice);
  }
  const rota::Run restored = rota::Run::from(run.state());
  for (std::int64_t step = 0; step < 100; ++step) {
    if (step < 35) {
      EXPECT_ERROR(restored.at(step), unsupported, {"is not known"});
      continue;
    }
    ASSERT_TRUE(restored.at(step)->slice(slice));
    EXPECT_EQ(handed(slice), steps[static_cast<std::size_t>(step)]) << step;
  }
}

}  // namespace rota::test::stages_test
