// Datasets of a mixture that come and go between the legs of a run. Held by the samples that are handed out
// alone.

#include <nlohmann/json.hpp>

#include "core/state_text.hpp"
#include "loader/course.hpp"

namespace rota::test::datasets_test {

const std::map<std::string, std::int64_t> kSizes{
    {"web", 61}, {"code", 40}, {"books", 23}, {"news", 35}, {"maths", 12}};

Mixture mixture_of(const std::vector<std::string>& names, const std::vector<double>& weights) {
  Mixture mixture{.end = MixtureEnd::all_exhausted};
  for (std::size_t d = 0; d < names.size(); ++d)
    mixture.datasets.push_back(
        {.source = counting(kSizes.at(names[d])), .weight = weights[d], .name = names[d]});
  return mixture;
}

/// Names in any order, with weights.
Mixture random_mixture(std::mt19937_64& random) {
  std::vector<std::string> names;
  for (const auto& [name, size] : kSizes) {
    if (draw(random, 0, 2) != 0) names.push_back(name);
  }
  if (names.empty()) names = {"web"};
  std::ranges::shuffle(names, random);
  std::vector<double> weights;
  for (std::size_t d = 0; d < names.size(); ++d) weights.push_back(static_cast<double>(draw(random, 1, 4)));
  return mixture_of(names, weights);
}

LoaderOptions options_of(std::int64_t batch) {
  return {.global_batch_size = batch, .shards = 4, .epochs = 1'000'000, .workers = 0};
}

/// What is handed out: by dataset, epoch and sample of the dataset how often.
class Auditor {
 public:
  void hear(const Loader& loader, const Batch& batch) {
    const auto names = loader.names();
    for (std::size_t i = 0; i < batch.ids().size(); ++i) {
      const std::int32_t number = batch.datasets()[i];
      const std::string& name = names[static_cast<std::size_t>(number)];
      const std::int64_t first = loader.first_id(number).value;
      const auto [known, is_new] = firsts_.try_emplace(name, first);
      ASSERT_EQ(known->second, first) << name << " keeps its ids";
      ++times_[name][batch.epochs()[i]][batch.ids()[i].value - first];
    }
  }
  void expect_each_once() const {
    for (const auto& [name, epochs] : times_) {
      const std::int64_t last = epochs.rbegin()->first;
      ASSERT_EQ(std::ssize(epochs), last + 1);
      for (const auto& [epoch, samples] : epochs) {
        for (const auto& [sample, times] : samples) {
          ASSERT_EQ(times, 1) << name << ", epoch " << epoch << ", sample " << sample;
          ASSERT_LT(sample, kSizes.at(name));
        }
        if (epoch < last) ASSERT_EQ(std::ssize(samples), kSizes.at(name)) << name << ", epoch " << epoch;
      }
    }
  }
  [[nodiscard]] bool knows(const std::string& name) const { return times_.contains(name); }

 private:
  std::map<std::string, std::int64_t> firsts_;
  std::map<std::string, std::map<std::int64_t, std::map<std::int64_t, int>>> times_;
};

TEST(Datasets, ComeAndGoAndEachSampleOfEachEpochComesOnce) {
  for_seeds(60, [](std::uint64_t seed, std::mt19937_64& random) {
    Checkpoints checkpoints;
    Auditor auditor;
    std::string text;
    const std::int64_t batch_size = draw(random, 1, 9);
    for (int leg = 0; leg < 8; ++leg) {
      const Mixture mixture = random_mixture(random);
      LoaderOptions options = options_of(batch_size);
      const int size = static_cast<int>(draw(random, 1, 3));
      std::set<std::string> seen;
      std::string next;
      for (int rank = 0; rank < size; ++rank) {
        std::mt19937_64 same = random;
        Loader loader(mixture, options, {.rank = rank, .size = size});
        if (leg > 0 && seed % 2 == 0) restore(loader, text);
        if (leg > 0 && seed % 2 != 0) restore(loader, *checkpoints->latest());
        for (std::int64_t steps = draw(same, 0, 12); steps > 0; --steps) {
          if (draw(same, 0, 9) == 0) {
            std::vector<double> weights;
            for (const std::string& name : loader.names()) {
              const bool is_there = std::ranges::count(mixture.names(), name) > 0;
              weights.push_back(is_there ? static_cast<double>(draw(same, 1, 3)) : 0.0);
            }
            loader.set_weights(weights);
          }
          const auto batch = loader.next();
          ASSERT_TRUE(batch);
          ASSERT_NO_FATAL_FAILURE(auditor.hear(loader, *batch));
        }
        next = state(loader);
        if (rank == size - 1 && seed % 2 != 0) {
          Loader whole(mixture, options, {});
          restore(whole, next);
          checkpoints->save_all(leg, whole);
        }
        if (rank == size - 1) random = same;
      }
      text = next;
      ASSERT_EQ(state(Loader(mixture, options, {})).empty(), false);
    }
    auditor.expect_each_once();
  });
}

TEST(Datasets, ThatAreLeftOutStayWithTheirPlaceForTheirReturn) {
  const auto step = [](Loader& loader, int steps) {
    Numbers ids;
    for (; steps > 0; --steps) {
      const auto batch = loader.next();
      for (const SampleId id : batch->ids()) ids.push_back(id.value);
    }
    return ids;
  };
  Loader both(mixture_of({"web", "code"}, {1, 1}), options_of(4), {});
  step(both, 3);
  Loader one(mixture_of({"code"}, {1}), options_of(4), {});
  restore(one, state(both));
  EXPECT_THAT(one.names(), ElementsAre("web", "code"));
  EXPECT_THAT(step(one, 5), Each(Ge(61)));
  EXPECT_EQ(one.mixture()->weights, (Numbers{0, 1}));
  Loader more(mixture_of({"maths", "code", "web"}, {1, 1, 2}), options_of(4), {});
  restore(more, state(one));
  EXPECT_THAT(more.names(), ElementsAre("web", "code", "maths"));
  EXPECT_EQ(more.mixture()->weights, (Numbers{2, 1, 1}));
  EXPECT_EQ(more.run().at(0)->mixture()->weights, (Numbers{1, 1, 0})) << "the past is known";
  Numbers cursors(2 * 12);
  more.run().cursors(0, cursors);
  const auto read = [&](std::size_t shard) { return cursors[2 * shard + 1]; };
  EXPECT_EQ(read(0) + read(1) + read(2) + read(3), 6) << "of web, before it was left out";
}

TEST(Datasets, OfAnotherContentAreRefusedByNameAndNothingMoves) {
  Loader both(mixture_of({"web", "code"}, {1, 1}), options_of(4), {});
  (void)both.next();
  const std::string text = state(both);
  Mixture mixture = mixture_of({"code", "web", "news"}, {1, 1, 1});
  mixture.datasets[1].source = counting(62);
  Loader other(mixture, options_of(4), {});
  EXPECT_ERROR(restore(other, text), mismatch, {"the dataset web differs", "61 samples", "62 samples"});
  EXPECT_EQ(other.position(), Position());
  EXPECT_THAT(other.names(), ElementsAre("code", "web", "news"));
  EXPECT_TRUE(other.next());
  mixture.datasets[1].name = "code";
  EXPECT_ERROR(Loader(mixture, options_of(4), {}), invalid_argument, {"two are called \"code\""});
  mixture.datasets[1].name = "";
  EXPECT_ERROR(Loader(mixture, options_of(4), {}), invalid_argument, {"one has none"});
}

TEST(Datasets, OfPlansKeepTheirPastAndTakeNoPartInWhatComes) {
  LoaderOptions options = options_of(6);
  options.plan.stages = {{.weights = {1, 1}}, {.begin = 60, .global_batch_size = 3, .weights = {1, 3}}};
  Loader both(mixture_of({"web", "code"}, {1, 1}), options, {});
  for (int steps = 0; steps < 5; ++steps) (void)both.next();
  Loader one(mixture_of({"web", "books"}, {1, 1}), options_of(6), {});
  restore(one, state(both));
  EXPECT_EQ(one.run().at(2)->mixture()->weights, (Numbers{1, 1, 0}));
  EXPECT_EQ(one.mixture()->weights, (Numbers{1, 0, 1})) << "the program's, which are others";
  EXPECT_EQ(one.run().at(12)->mixture()->weights, (Numbers{1, 0, 0}))
      << "code is not there, books are in no stage";
  EXPECT_EQ(one.run().at(12)->global_batch_size(), 3);
  Loader planned(mixture_of({"web"}, {1}),
                 [&] {
                   LoaderOptions how = options_of(6);
                   how.plan.stages = {{.weights = {1}}};
                   return how;
                 }(),
                 {});
  EXPECT_ERROR(restore(planned, state(both)), mismatch, {"code is not there any more", "replan()"});
}

/// A loader of web and code by a plan, so many steps on.
Loader planned(const RunPlan& plan, int steps) {
  LoaderOptions options = options_of(6);
  options.plan = plan;
  Loader loader(mixture_of({"web", "code"}, {1, 0}), options, {});
  for (; steps > 0; --steps) (void)loader.next();
  return loader;
}

TEST(Datasets, ThatAreNotThereHaveNoTurnsThoughAStageHasBegunOrOneSetThemByHand) {
  const auto goes_on = [](const Loader& both) {
    Loader web(mixture_of({"web"}, {1}), options_of(6), {});
    restore(web, state(both));
    EXPECT_EQ(web.mixture()->weights, (Numbers{1, 0}));
    for (int steps = 0; steps < 20; ++steps) ASSERT_TRUE(web.next());
  };
  goes_on(planned({.stages = {{.begin = 12, .weights = {1, 3}}}}, 5));
  Loader twice(mixture_of({"web"}, {1}), options_of(6), {});
  const Loader both = planned({.stages = {{.begin = 6000, .weights = {1, 3}}}}, 5);
  for (int times = 0; times < 2; ++times) {
    restore(twice, state(both));
    EXPECT_EQ(twice.run().at(1500)->mixture()->weights, (Numbers{1, 0}));
  }
  Loader by_hand = planned({}, 3);
  by_hand.set_weights(std::vector<double>{1, 1});
  goes_on(by_hand);
}

TEST(Datasets, OfALoaderWithoutAPlanGoByThatOfEachStateThatItGoesBackTo) {
  Loader loader(mixture_of({"web", "code"}, {1, 0}), options_of(6), {});
  for (const double weight : {3.0, 5.0}) {
    restore(loader, state(planned({.stages = {{.begin = 6, .weights = {1, weight}}}}, 5)));
    EXPECT_EQ(loader.mixture()->weights, (Numbers{1, static_cast<std::int64_t>(weight)}));
  }
}

TEST(Datasets, ThatWeightsOnTheirWayWouldBringBackCannotGo) {
  Loader web(mixture_of({"web"}, {1}), options_of(6), {});
  const Loader in_a_line = planned({.stages = {{.weights = {1, 1}, .toward = {1, 3}}, {.begin = 6000}}}, 5);
  EXPECT_ERROR(restore(web, state(in_a_line)), mismatch,
               {"give turns to the dataset code", "another plan first"});
  const Loader alone = planned({.stages = {{.begin = 6000, .weights = {0, 1}}}}, 5);
  EXPECT_ERROR(restore(web, state(alone)), mismatch, {"a stage of its plan is of the dataset code alone"});
  EXPECT_EQ(web.position(), Position());
  EXPECT_THAT(web.names(), ElementsAre("web"));
  EXPECT_TRUE(web.next());
}

TEST(Datasets, ThatAreNotThereAreGivenNoTurns) {
  Loader web(mixture_of({"web"}, {1}), options_of(6), {});
  restore(web, state(planned({}, 3)));
  EXPECT_ERROR(web.set_weights(std::vector<double>{1, 1}), invalid_argument,
               {"dataset code", "step 3", "left out"});
  const RunPlan plan{.stages = {{.begin = 60, .weights = {1, 2}}}};
  EXPECT_ERROR(web.replan(plan), invalid_argument, {"dataset code", "step 10"});
  EXPECT_EQ(web.run().plan(), RunPlan());
  web.set_weights(std::vector<double>{2, 0});
  EXPECT_TRUE(web.next());
}

TEST(Datasets, OfABalanceStayThoseThatTheyAre) {
  LoaderOptions options = options_of(6);
  options.rank_split = Split::balanced;
  options.balance.columns = {{.lengths = Lengths(numbers_from(0, 101))}};
  Loader both(mixture_of({"code", "web"}, {1, 1}), options, {});
  Loader other(mixture_of({"web", "code"}, {1, 1}), options_of(6), {});
  EXPECT_ERROR(restore(both, state(other)), unsupported, {"lengths of a balance go by their numbers"});
}

TEST(Datasets, OfAStateThatIsDamagedAreRefused) {
  Loader both(mixture_of({"web", "code"}, {1, 1}), options_of(6), {});
  const auto good = OrderedJson::parse(state(both));
  Loader more(mixture_of({"web", "news"}, {1, 1}), options_of(6), {});
  const std::map<std::string, Json> wrong{
      {"weights", 7}, {"counts", "x"}, {"given", Json::object()}, {"sizes", {61, 0}}};
  for (const auto& [key, value] : wrong) {
    auto text = good;
    text["mixture"][key] = value;
    EXPECT_ERROR(restore(more, sealed(text)), corrupt, {"restore a loader from a text"}) << key;
    EXPECT_ERROR(restore(more, text.dump()), corrupt, {"digest"}) << key;
  }
  auto twice = good;
  twice["mixture"]["datasets"][1]["name"] = "web";
  EXPECT_ERROR(restore(more, sealed(twice)), corrupt, {"one twice"});
}

TEST(Datasets, WithOpenSamplesCannotGo) {
  LoaderOptions options = options_of(6);
  options.settle = Settle::by_hand;
  Loader both(mixture_of({"web", "code"}, {1, 1}), options, {});
  const auto batch = both.next();
  both.settle(batch->ids().subspan(0, 5), batch->epochs().subspan(0, 5));
  ASSERT_EQ(batch->datasets()[5], 1);
  Loader web(mixture_of({"web"}, {1}), options, {});
  EXPECT_ERROR(restore(web, state(both)), mismatch, {"samples of the dataset code are open"});
  Loader more(mixture_of({"code", "news"}, {1, 1}), options, {});
  restore(more, state(both));
  const auto again = more.next();
  EXPECT_EQ(again->ids()[0], batch->ids()[5]);
}

}  // namespace rota::test::datasets_test
