// Several datasets in one loader: their shares, their epochs, and that a run of them goes on anywhere.

#include "loader/course.hpp"

namespace rota::test::mixture_test {

Mixture mixture_of(const Numbers& sizes, const std::vector<double>& weights) {
  Mixture mixture;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    mixture.datasets.push_back({.source = counting(sizes[d]), .weight = weights[d]});
  }
  return mixture;
}

TEST(Mixture, MixesByWeightAfterAnyNumberOfSteps) {
  const Mixture mixture = mixture_of({100, 100, 100}, {0.5, 0.3, 0.2});
  SideBySide ranks(
      3, [&](World world) { return Loader(mixture, {.global_batch_size = 7, .epochs = 5}, world); });
  std::map<std::int32_t, std::int64_t> counts;
  std::int64_t taken = 0;
  const auto count = [&](const Loader& loader, const Batch& batch) {
    for (std::size_t i = 0; i < batch.ids().size(); ++i) {
      const std::int32_t dataset = batch.datasets()[i];
      ++counts[dataset];
      ++taken;
      EXPECT_EQ(batch.tensor("x").as<std::int64_t>()[2 * i],
                batch.ids()[i].value - loader.first_id(dataset).value);
    }
  };
  while (ranks.step(count)) {
    EXPECT_LT(std::abs(counts[0] * 10 - taken * 5), 10);
    EXPECT_LT(std::abs(counts[1] * 10 - taken * 3), 10);
    EXPECT_LT(std::abs(counts[2] * 10 - taken * 2), 10);
  }
  EXPECT_EQ(counts[0], 500);
  EXPECT_THAT(ranks.front().mixture()->weights, ElementsAre(5, 3, 2));
}

TEST(Mixture, OfDatasetsOfOneSizeShufflesEachInItsOwnWay) {
  Mixture mixture = mixture_of({64, 64}, {1, 1});
  mixture.end = MixtureEnd::all_exhausted;  // with all samples of both
  Loader loader(mixture, {.global_batch_size = 128, .workers = 0});
  std::vector<Numbers> ids(2);
  for (const std::int64_t id : rest_of(loader)) ids[static_cast<std::size_t>(id / 64)].push_back(id % 64);
  EXPECT_THAT(ids[0], SizeIs(64));
  EXPECT_NE(ids[0], ids[1]);
}

TEST(Mixture, SeeksBackAcrossAChangeOfWeightsWithTheStateOfThen) {
  Loader loader(mixture_of({50, 60}, {1, 2}), {.global_batch_size = 8, .epochs = 4, .workers = 1});
  (void)loader.next();
  const Position at = loader.position();
  const MixtureState then = *loader.mixture();
  Step before;
  before.add(*loader.next());
  loader.set_weights(std::vector<double>{2, 1});
  EXPECT_THROW(loader.seek(at), Error);
  loader.seek(at, then);
  Step again;
  again.add(*loader.next());
  EXPECT_EQ(before, again);
}

TEST(Mixture, TakesNewWeightsOfTheProgramFromARestoreOnButKeepsThoseThatWereSet) {
  const auto make = [](double first) {
    return Loader(Mixture{.datasets = {{counting(400), first}, {counting(400), 1 - first}}},
                  {.global_batch_size = 20});
  };
  Loader saved = make(0.5);
  for (int step = 0; step < 3; ++step) (void)saved.next();
  saved.set_weights(std::array{0.25, 0.75});
  (void)saved.next();
  const std::string text = state(saved);
  Loader same = make(0.5);
  restore(same, text);
  EXPECT_EQ(*same.mixture(), *saved.mixture());
  Loader other = make(0.75);
  restore(other, text);
  EXPECT_THAT(other.mixture()->weights, ElementsAre(3, 1));
  EXPECT_EQ(other.mixture()->changed_at, 80);
  EXPECT_THAT(other.mixture()->counts, ElementsAre(35, 45));
  restore(other, state(other));
  EXPECT_EQ(other.mixture()->changed_at, 80);
}

TEST(Mixture, RefusesDatasetsWithOtherFieldsAndNamesThem) {
  Mixture mixture = mixture_of({3}, {1});
  mixture.datasets.push_back(
      {.source = told(3, {{.name = "y", .dtype = DType::float32, .shape = {3}, .ragged = true}})});
  EXPECT_ERROR(Loader(mixture, {}), invalid_argument,
               {"number 0 has \"x\" int64[2], \"text\" uint8[*]; number 1 has \"y\" float32[*, 3]"});
}

TEST(Mixture, RefusesWeightsThatAreNotOfItsDatasets) {
  EXPECT_ERROR(Loader(mixture_of({3, 3}, {1, -1}), {}), invalid_argument, {"each must be 0 or more"});
  Loader alone(counting(9), {});
  EXPECT_EQ(alone.mixture(), nullptr);
  EXPECT_ERROR(alone.set_weights(std::vector<double>{1}), invalid_argument, {"mixes none"});
  Loader loader(mixture_of({50, 60}, {1, 2}), {});
  EXPECT_ERROR(loader.set_weights(std::vector<double>{1}), invalid_argument, {"mixes 2"});
  EXPECT_ERROR(loader.set_weights(std::vector<double>{0, 0}), invalid_argument, {"above 0"});
  EXPECT_THAT(loader.mixture()->weights, ElementsAre(1, 2));
}

TEST(Mixture, RefusesTheCheckpointOfAnotherOne) {
  Checkpoints checkpoints;
  Loader saved(mixture_of({50, 60}, {1, 2}), {});
  checkpoints->save_all(0, saved);
  Loader swapped(mixture_of({60, 50}, {1, 2}), {});
  EXPECT_ERROR(restore(swapped, *checkpoints->latest()), mismatch, {"the dataset differs"});
  Loader alone(counting(110), {});
  EXPECT_ERROR(restore(alone, *checkpoints->latest()), mismatch, {"the dataset differs"});
  EXPECT_THAT(describe_loader(*checkpoints->latest()),
              HasSubstr("weights 1:2 since sample 0 (of each dataset 0, 0)"));
}

}  // namespace rota::test::mixture_test
