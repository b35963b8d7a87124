#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::join_test {

std::vector<SampleId> ids_of(std::initializer_list<std::int64_t> values) {
  std::vector<SampleId> ids;
  for (const std::int64_t value : values) ids.push_back({value});
  return ids;
}

/// 10, none, and 20 samples.
std::shared_ptr<const Source> joined() {
  return join({counting(10), counting(0),
               counting(20, std::vector<std::int64_t>{5, 15})});
}

TEST(Join, ReadsTheSamplesOfOneSourceAfterThoseOfTheOther) {
  const auto source = joined();
  ASSERT_EQ(source->size(), 30);
  const auto ids = ids_of({0, 29, 9, 10, 11, 3});
  std::vector<std::int64_t> rows(ids.size());
  source->rows(ids, 1, rows);
  EXPECT_THAT(rows, ElementsAre(0, 19 % 7, 9 % 7, 0, 1, 3));
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t count : rows) offsets.push_back(offsets.back() + count);
  std::vector<std::int64_t> x(2 * ids.size());
  std::vector<std::byte> text(static_cast<std::size_t>(offsets.back()));
  const std::vector<BatchView::FieldMemory> memory{
      {.data = reinterpret_cast<std::byte*>(x.data()), .row_bytes = 16},
      {.data = text.data(), .row_bytes = 1, .offsets = offsets.data()}};
  source->read(ids, BatchView(memory, 0, ids.size()));
  EXPECT_THAT(x, ElementsAre(0, 0, 19, 19, 9, 9, 0, 0, 1, 1, 3, 3));
}

TEST(Join, ReadsPartsOfSamples) {
  std::vector<std::byte> out(5);
  const std::vector<SampleRows> wanted{{.id = {13}, .first = 1, .count = 2, .to = out.data()},
                                       {.id = {6}, .first = 3, .count = 3, .to = out.data() + 2}};
  joined()->read_rows(wanted, 1);
  EXPECT_THAT(out, ElementsAre(std::byte{3}, std::byte{3}, std::byte{6}, std::byte{6}, std::byte{6}));
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

TEST(Join, RefusesIdsThatThereAreNot) {
  const auto source = joined();
  const auto ids = ids_of({3, 30});
  std::vector<std::int64_t> rows(ids.size());
  EXPECT_THROW(source->rows(ids, 1, rows), Error);
}

}  // namespace rota::test::join_test
