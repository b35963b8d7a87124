#include "source/reading.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::join_test {

/// 10, none, and 20 samples.
std::shared_ptr<const Source> joined() {
  return join({counting(10), counting(0), counting(20, std::vector<std::int64_t>{5, 15})});
}

TEST(Join, ReadsTheSamplesOfOneSourceAfterThoseOfTheOther) {
  const auto source = joined();
  ASSERT_EQ(source->size(), 30);
  const Samples samples(*source, ids({0, 29, 9, 10, 11, 3}));
  const std::vector<std::int64_t> expected{0, 19, 9, 0, 1, 3};
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

TEST(Join, RefusesSourcesThatAreNone) {
  EXPECT_THROW((void)join({}), Error);
  EXPECT_THROW((void)join({counting(10), nullptr}), Error);
}

TEST(Join, RefusesIdsThatThereAreNot) { EXPECT_THROW(Samples(*joined(), ids({3, 30})), Error); }

}  // namespace rota::test::join_test
