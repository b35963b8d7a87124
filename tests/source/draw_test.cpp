// Epochs that draw samples of a dataset.

#include <cmath>

#include "source/reading.hpp"
#include "source/told_source.hpp"

namespace rota::test::draw_test {

using Made = std::shared_ptr<const Source>;

Numbers counts_of(const Source& drawn_source, std::int64_t samples, std::int64_t epoch) {
  Numbers counts(static_cast<std::size_t>(samples));
  for (const SampleId id : all_ids(drawn_source))
    ++counts[static_cast<std::size_t>(drawn(drawn_source, id, epoch).value)];
  return counts;
}

// A sample's draws are those that are it.
void expect_inverse(const Source& source, std::int64_t samples, std::int64_t epoch) {
  std::int64_t found = 0;
  for (std::int64_t id = 0; id < samples; ++id) {
    const auto draws = draws_of(source, {id}, epoch);
    EXPECT_TRUE(std::ranges::is_sorted(draws));
    for (const SampleId one : draws) EXPECT_EQ(drawn(source, one, epoch).value, id);
    found += std::ssize(draws);
  }
  EXPECT_EQ(found, source.size());
}

TEST(Repeat, GivesEachSampleAsOftenAsItSaysAndTheRestInTurn) {
  for_seeds(60, [](std::uint64_t seed, std::mt19937_64& random) {
    const std::int64_t samples = draw(random, 1, 90);
    const double times =
        static_cast<double>(draw(random, samples, 4 * samples)) / static_cast<double>(samples);
    const Made source = repeat(counting(samples), times, seed);
    ASSERT_EQ(source->size(), std::llround(times * static_cast<double>(samples)));
    const auto least = static_cast<std::int64_t>(std::floor(times + 1e-9));
    const std::int64_t first = draw(random, 0, 1) * (std::int64_t{1} << 60);
    Numbers all(static_cast<std::size_t>(samples));
    for (std::int64_t epoch = first; epoch < first + 20; ++epoch) {
      const Numbers counts = counts_of(*source, samples, epoch);
      EXPECT_THAT(counts, Each(AnyOf(least, least + 1)));
      std::ranges::transform(all, counts, all.begin(), std::plus<>());
      const auto [low, high] = std::ranges::minmax(all);
      EXPECT_LE(high - low, 1);
    }
    expect_inverse(*source, samples, first + 7);
    for (std::int64_t i = 0; i < least * samples; ++i)
      EXPECT_EQ(drawn(*source, {i}, 3).value, i % samples);  // in order, and behind that the rest
  });
}

TEST(Repeat, TakesAnotherPartInEachEpoch) {
  const Made source = repeat(counting(100), 0.25, 5);
  std::vector<bool> seen(100);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch)
    for (const SampleId id : all_ids(*source))
      seen[static_cast<std::size_t>(drawn(*source, id, epoch).value)] = true;
  EXPECT_THAT(seen, Each(true));
  EXPECT_NE(drawn(*source, {0}, 0), drawn(*repeat(counting(100), 0.25, 6), {0}, 0));
}

TEST(Weighted, DrawsEachSampleWithinOneOfItsShareAndEvenlyOverEpochs) {
  for_seeds(40, [](std::uint64_t seed, std::mt19937_64& random) {
    const std::int64_t samples = draw(random, 1, 60);
    std::vector<double> weights;
    for (std::int64_t i = 0; i < samples; ++i)
      weights.push_back(
          std::ldexp(static_cast<double>(draw(random, 0, 9)), static_cast<int>(draw(random, 0, 6))));
    weights[static_cast<std::size_t>(draw(random, 0, samples - 1))] = 5;
    const double scale = std::pow(10.0, static_cast<double>(draw(random, -300, 300)));
    for (double& weight : weights) weight *= scale;
    const std::int64_t draws = draw(random, 1, 3 * samples);
    const Made source = weighted(counting(samples), weights, draws, seed);
    ASSERT_EQ(source->size(), draws);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    Numbers all(weights.size());
    constexpr std::int64_t kEpochs = 200;
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const Numbers counts = counts_of(*source, samples, epoch);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double share = static_cast<double>(draws) * (weights[i] / sum);
        EXPECT_LT(std::abs(static_cast<double>(counts[i]) - share), 1 + 1e-6);
        all[i] += counts[i];
        EXPECT_LT(std::abs(static_cast<double>(all[i]) - share * static_cast<double>(epoch + 1)), 3.5);
      }
    }
    expect_inverse(*source, samples, 11);
  });
}

TEST(Weighted, OfClassesMakesThemEquallyFrequent) {
  std::vector<double> weights(1000, 1.0 / 990);
  for (std::size_t i = 0; i < 10; ++i) weights[i * 100] = 1.0 / 10;
  const Made source = weighted(counting(1000), weights, 500);
  const Numbers counts = counts_of(*source, 1000, 0);
  std::int64_t rare = 0;
  for (std::size_t i = 0; i < 10; ++i) rare += counts[i * 100];
  EXPECT_EQ(rare, 250);
}

// ---- as a loader reads them ----

// The samples of `counting` that a loader gave, with each draw's dataset, epoch and bytes held against it.
std::vector<std::pair<std::int64_t, std::int64_t>> read_all(Loader& loader,
                                                            const std::vector<Made>& datasets) {
  std::vector<std::pair<std::int64_t, std::int64_t>> read;  // draws and epochs
  while (const auto batch = loader.next()) {
    const auto values = batch->tensor(0).as<std::int64_t>();
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      const std::int32_t d = batch->datasets()[i];
      const SampleId own{batch->ids()[i].value - loader.first_id(d).value};
      const std::int64_t id = drawn(*datasets[static_cast<std::size_t>(d)], own, batch->epochs()[i]).value;
      EXPECT_EQ(values[2 * i], id);
      const auto bytes = batch->bytes(1, static_cast<std::int64_t>(i));
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                std::string(static_cast<std::size_t>(id % 7), static_cast<char>(id)));
      read.emplace_back(batch->ids()[i].value, batch->epochs()[i]);
    }
  }
  return read;
}

TEST(Draws, AreReadWithRaggedFieldsInMixturesByWorkersAndBehindAResume) {
  std::vector<double> weights;
  for (int i = 0; i < 30; ++i) weights.push_back(i % 4);
  const std::vector<Made> datasets{repeat(counting(40), 2.3, 1), weighted(counting(30), weights, 55, 2),
                                   select(repeat(counting(9), 3), ids({0, 26, 5, 5, 17}))};
  const Made chosen = repeat(counting(9), 3);  // what the third is of
  const auto looked_up = [&](std::size_t count) {
    return std::vector<Made>(datasets.begin(), datasets.begin() + static_cast<std::ptrdiff_t>(count));
  };
  for (const int workers : {0, 2}) {
    for (const Shuffle shuffle : {Shuffle::none, Shuffle::within, Shuffle::global, Shuffle::block}) {
      const LoaderOptions options{.global_batch_size = 7,
                                  .shards = 4,
                                  .shuffle = shuffle,
                                  .tail = Tail::carry,
                                  .epochs = 3,
                                  .workers = workers};
      Loader alone(datasets[0], options);
      const auto whole = read_all(alone, looked_up(1));
      EXPECT_EQ(whole.size(), 3 * 92U);
      const Mixture mixture{.datasets = {{datasets[0], 2}, {datasets[1], 1}}};
      Loader mixed(mixture, options);
      Loader later(mixture, options);
      for (int step = 0; step < 5; ++step) EXPECT_TRUE(later.next());
      Loader resumed(mixture, options);
      const auto all = read_all(mixed, looked_up(2));
      restore(resumed, state(later));
      const auto rest = read_all(resumed, looked_up(2));
      EXPECT_EQ(std::vector(all.begin() + 35, all.end()), rest);
    }
  }
  EXPECT_EQ(chosen->size(), 27);
}

TEST(Draws, AreReadThroughAdaptorsThatLeaveRowsAsTheyAre) {
  const Made drawn = repeat(counting(40), 2.3, 1);
  const Made known = known_as(cast(drawn, {}), {1, 2}, drawn->fingerprint());
  const LoaderOptions options{.global_batch_size = 7, .epochs = 2, .workers = 2};
  Loader plain(drawn, options);
  for (Loader other(known, options); const auto batch = plain.next();) {
    const auto same = other.next();
    ASSERT_EQ(same->size(), batch->size());
    for (std::int64_t i = 0; i < batch->size(); ++i)
      EXPECT_TRUE(std::ranges::equal(same->bytes(1, i), batch->bytes(1, i)));
  }
}

TEST(Draws, HaveOtherBytesInOtherEpochsAndAStateKnowsTheirDatasetAllTheSame) {
  const auto plan = PlannedSource::plan_of(*repeat(counting(10), 1.5));
  EXPECT_TRUE(plan->changes_by_epoch());
  EXPECT_FALSE(PlannedSource::plan_of(*counting(10))->changes_by_epoch());
}

TEST(Draws, RefuseWhatNoEpochHas) {
  const Made ten = counting(10);
  EXPECT_ERROR(repeat(nullptr, 2), invalid_argument, {"null pointer"});
  for (const double times : {0.0, -1.0, 0.04, 1e19, std::nan(""), HUGE_VAL})
    EXPECT_ERROR(repeat(ten, times), invalid_argument, {"10 samples", "above 0"});
  EXPECT_ERROR(repeat(take(ten, 0), 2), invalid_argument, {"the dataset has none"});
  const std::vector<double> ones(10, 1);
  EXPECT_ERROR(weighted(ten, std::span(ones).first(9), 5), invalid_argument, {"9 weights, and 10 samples"});
  EXPECT_ERROR(weighted(ten, ones, 0), invalid_argument, {"0 draws"});
  for (const double weight : {-1.0, std::nan(""), HUGE_VAL}) {
    auto weights = ones;
    weights[4] = weight;
    EXPECT_ERROR(weighted(ten, weights, 5), invalid_argument, {"weights[4]", "0 or more"});
  }
  EXPECT_ERROR(weighted(ten, std::vector<double>(10), 5), invalid_argument,
               {"none of 10 weights is above 0"});
  const Made twice = repeat(ten, 2);
  EXPECT_ERROR(drawn(*ten, {0}, 0), invalid_argument, {"repeat() or weighted()"});
  EXPECT_ERROR(drawn(*twice, {20}, 0), out_of_range, {"draw 20", "0 to 19"});
  EXPECT_ERROR(drawn(*twice, {0}, -1), out_of_range, {"epoch -1"});
  EXPECT_ERROR(draws_of(*twice, {10}, 0), out_of_range, {"sample 10", "0 to 9"});
}

// Who asks for rows without saying the epoch would get those of another sample.
TEST(Draws, AreNotPackedOrSizedForNoEpoch) {
  Numbers rows(1);
  EXPECT_ERROR(repeat(counting(10), 2)->rows(ids({3}), 1, rows), unsupported, {"outside", "pack()"});
  EXPECT_ERROR(lengths_of(*repeat(counting(10), 2), "text"), unsupported, {"outside"});
}

TEST(Draws, AreKnownApartByWhatTheyAreOfAndHow) {
  const std::vector<double> ones(10, 1);
  std::vector<double> others = ones;
  others[3] = 2;
  const std::vector<Made> all{counting(10),
                              repeat(counting(10), 2),
                              repeat(counting(10), 2, 1),
                              repeat(counting(10), 2.1),
                              repeat(counting(11), 2),
                              weighted(counting(10), ones, 20),
                              weighted(counting(10), ones, 21),
                              weighted(counting(10), others, 20),
                              weighted(counting(10), ones, 20, 1)};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(all[i]->fingerprint(), all[k]->fingerprint()) << i << k;
  EXPECT_EQ(repeat(counting(10), 2)->fingerprint(), all[1]->fingerprint());
}

}  // namespace rota::test::draw_test
