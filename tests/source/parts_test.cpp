// Sources that are joined, and split.

#include "source/reading.hpp"
#include "source/told_source.hpp"

namespace rota::test::parts_test {

using Sources = std::vector<std::shared_ptr<const Source>>;

Numbers contents(const Source& part) {
  const Samples samples(part, all_ids(part));
  Numbers result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(part.size()); ++i) {
    result.push_back(samples.values<std::int64_t>(0, i)[0]);
    const std::string text(static_cast<std::size_t>(result.back() % 7), static_cast<char>(result.back()));
    EXPECT_EQ(samples.sample(1, i), text);
    EXPECT_EQ(part.where({static_cast<std::int64_t>(i)}), "place-" + std::to_string(result.back()));
  }
  return result;
}

Sources parts_of(std::int64_t size, const std::vector<double>& fractions, std::uint64_t seed = 1) {
  return split(counting(size), fractions, seed);
}

TEST(Split, GivesEverySampleToExactlyOnePart) {
  for (const std::int64_t size : {0, 1, 2, 7, 100, 1009}) {
    Numbers all;
    for (const auto& part : parts_of(size, {0.7, 0.0, 0.2, 0.1})) {
      const auto some = contents(*part);
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, numbers_from(0, size)) << size;
  }
}

TEST(Split, RoundsTheRunningSum) {
  const auto sizes = [](const Sources& parts) {
    Numbers result;
    for (const auto& part : parts) result.push_back(part->size());
    return result;
  };
  EXPECT_THAT(sizes(parts_of(10, {0.25, 0.25, 0.5})), ElementsAre(3, 2, 5));
  EXPECT_THAT(sizes(parts_of(7, {1. / 3, 1. / 3, 1. / 3})), ElementsAre(2, 3, 2));
  EXPECT_THAT(sizes(parts_of(1000003, {0.9, 0.1})), ElementsAre(900003, 100000));
  EXPECT_THAT(sizes(parts_of(5, {1.0})), ElementsAre(5));
}

TEST(Split, IsAtRandomAndTheSameForTheSameSeed) {
  const auto first = contents(*parts_of(1000, {0.5, 0.5})[0]);
  EXPECT_EQ(contents(*parts_of(1000, {0.5, 0.5})[0]), first);
  EXPECT_NE(contents(*parts_of(1000, {0.5, 0.5}, 2)[0]), first);
  const auto low = std::count_if(first.begin(), first.end(), [](std::int64_t value) { return value < 500; });
  EXPECT_GT(low, 200);
  EXPECT_LT(low, 300);
}

TEST(Split, TellsPartsSeedsAndBoundsApartByFingerprint) {
  const auto parts = parts_of(100, {0.5, 0.5});
  EXPECT_EQ(parts[0]->fingerprint(), parts_of(100, {0.5, 0.3, 0.2})[0]->fingerprint());
  EXPECT_NE(parts[0]->fingerprint(), parts[1]->fingerprint());
  EXPECT_NE(parts[0]->fingerprint(), parts_of(100, {0.4, 0.6})[0]->fingerprint());
  EXPECT_NE(parts[0]->fingerprint(), parts_of(100, {0.5, 0.5}, 2)[0]->fingerprint());
  EXPECT_NE(parts[0]->fingerprint(), parts_of(101, {50.0 / 101, 51.0 / 101})[0]->fingerprint());
}

TEST(Split, KeepsTheWholeAliveAndChecksItsOwnIds) {
  const auto part = parts_of(10, {0.5, 0.5})[1];
  EXPECT_EQ(contents(*part).size(), 5U);
  EXPECT_ERROR(Samples(*part, ids({5})), out_of_range, {"sample 5", "5 samples"});
  EXPECT_EQ(part->where({5}), "");
}

TEST(Split, RefusesDatasetsAndFractionsThatAreNone) {
  EXPECT_ERROR(split(nullptr, std::vector<double>{1.0}, 0), invalid_argument);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& fractions : std::vector<std::vector<double>>{{}, {0.5}, {0.5, 0.6}, {1.5, -0.5}, {nan}}) {
    EXPECT_ERROR(parts_of(10, fractions), invalid_argument, {"split a dataset", "fraction"});
  }
}

/// 10, none, and 20 samples.
std::shared_ptr<const Source> joined() {
  return join({counting(10), counting(0), counting(20, Numbers{5, 15})});
}

TEST(Join, ReadsTheSamplesOfOneSourceAfterThoseOfTheOther) {
  const auto source = joined();
  ASSERT_EQ(source->size(), 30);
  const Samples samples(*source, ids({0, 29, 9, 10, 11, 3}));
  const Numbers expected{0, 19, 9, 0, 1, 3};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_THAT(samples.values<std::int64_t>(0, i), ElementsAre(expected[i], expected[i]));
    EXPECT_THAT(samples.values<char>(1, i), AllOf(SizeIs(expected[i] % 7), Each(expected[i])));
  }
}

TEST(Join, KnowsWhereItsSamplesAreAndItsPartsBegin) {
  EXPECT_EQ(joined()->where({10}), "place-0");
  EXPECT_EQ(joined()->where({9}), "place-9");
  EXPECT_THAT(joined()->where({30}), IsEmpty());
  EXPECT_THAT(joined()->part_sizes(), ElementsAre(10, 0, 20));
}

TEST(Join, IsAnotherDatasetWhereSourcesOrTheirOrderAre) {
  const auto of = [](std::int64_t a, std::int64_t b) {
    return join({counting(a), counting(b)})->fingerprint();
  };
  EXPECT_EQ(of(10, 20), of(10, 20));
  EXPECT_NE(of(10, 20), of(20, 10));
  EXPECT_NE(of(10, 20), of(15, 15));
}

TEST(Join, RefusesSourcesAndIdsThatAreNone) {
  EXPECT_ERROR(join({}), invalid_argument);
  EXPECT_ERROR(join({counting(10), nullptr}), invalid_argument);
  EXPECT_ERROR(Samples(*joined(), ids({3, 30})), out_of_range);
}

}  // namespace rota::test::parts_test
