// Windows within episodes whose lengths are given, and those lengths as a field has them.

#include "source/numbered_rows.hpp"
#include "source/reading.hpp"

namespace rota::test::window_episodes_test {

TEST(Episodes, AreThePartsOfWindowsInPlaceOfFiles) {
  const auto rows = std::make_shared<NumberedRows>(Numbers{9, 8});
  for (const Edges edges : {Edges::drop, Edges::clamp}) {
    WindowOptions options{.offsets = {-1, 0, 2}, .edges = edges};
    const auto files = windows(std::make_shared<NumberedRows>(Numbers{4, 0, 7, 6}), options);
    options.episodes = {4, 0, 7, 6};
    const auto source = windows(rows, options);
    EXPECT_EQ(source->part_sizes(), files->part_sizes());
    ASSERT_EQ(source->size(), files->size());
    for (std::size_t i = 0; i < static_cast<std::size_t>(source->size()); ++i)
      EXPECT_EQ(Samples(*source, all_ids(*source)).sample(0, i),
                Samples(*files, all_ids(*files)).sample(0, i));
    EXPECT_EQ(source->fingerprint(), files->fingerprint());
    options.episodes = {4, 7, 6, 0};
    EXPECT_NE(windows(rows, options)->fingerprint(), files->fingerprint());
  }
  EXPECT_EQ(windows(told(0), {.length = 2, .episodes = {0, 0}})->size(), 0);
}

TEST(Episodes, AreRefusedUnlessTheyAddUpAndHaveAWindow) {
  const auto over_ten = [](const Numbers& episodes) {
    return windows(told(10), {.length = 3, .episodes = episodes});
  };
  EXPECT_ERROR(over_ten({4, 5}), invalid_argument, {"the episodes have 9 rows, and the dataset 10"});
  EXPECT_ERROR(over_ten({0}), invalid_argument, {"the episodes have 0 rows"});
  EXPECT_ERROR(over_ten({4, 0, 7, 9}), invalid_argument,
               {"episode 2 has 7 rows", "leave 6 of the dataset's 10"});
  EXPECT_ERROR(over_ten({kMaxCount, kMaxCount, kMaxCount}), invalid_argument, {"episode 0 has 46116"});
  EXPECT_ERROR(over_ten({2, 2, 2, 2, 2}), invalid_argument, {"no episode has more than 2 of the 10 rows"});
}

/// Rows of episodes with these numbers and lengths: "n" of a type, and "x", so many bytes.
std::shared_ptr<ToldSource> numbered(DType dtype, const Numbers& numbers, const Numbers& lengths,
                                     std::int64_t bytes = 0) {
  Numbers ends(lengths.size());
  std::partial_sum(lengths.begin(), lengths.end(), ends.begin());
  const auto source = told(ends.empty() ? 0 : ends.back(), {{"x", DType::uint8, {bytes}}, {"n", dtype, {}}});
  source->fill = [=](SampleId id, std::size_t field, std::int64_t, std::span<std::byte> to) {
    const auto episode = std::ranges::upper_bound(ends, id.value) - ends.begin();
    if (field == 1) std::memcpy(to.data(), &numbers[static_cast<std::size_t>(episode)], to.size());
  };
  return source;
}

TEST(Episodes, AreRunsOfEqualNumbersOfAnyIntegerTypeReadOnceInLargeReads) {
  for (const DType dtype : {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8,
                            DType::uint16, DType::uint32, DType::uint64}) {
    const Numbers lengths{1, 65'534, 1, 3, 70'000, 200'000, 2};
    const auto rows = numbered(dtype, {5, -1, 0, 127, 1, 3, 2}, lengths);
    EXPECT_EQ(episode_lengths(*rows, "n"), lengths) << to_string(dtype);
    EXPECT_EQ(rows->reads, rows->size());
  }
  const Numbers few{3, 4, 1};
  const auto large = numbered(DType::int32, {0, 1, 2}, few, std::int64_t{12} << 20);  // two in a read
  std::int64_t last = -1;
  large->on_read = [&](SampleId id) { EXPECT_EQ(id.value, ++last); };
  EXPECT_EQ(episode_lengths(*large, "n"), few);
  EXPECT_EQ(last, 7);
  EXPECT_THAT(episode_lengths(*numbered(DType::int8, {}, {}), "n"), IsEmpty());
}

TEST(Episodes, AreRefusedWhereNoFieldNumbersThem) {
  const auto of = [](Fields fields, std::string_view name = "n") {
    return episode_lengths(*told(9, std::move(fields)), name);
  };
  EXPECT_ERROR(of({{"x", DType::int64, {}}}), not_found, {"no field \"n\"", "\"x\" int64"});
  const std::string other = "is no integer in each row";
  EXPECT_ERROR(of({{"n", DType::float32, {}}}), invalid_argument, {"\"n\" float32", other});
  EXPECT_ERROR(of({{"n", DType::boolean, {}}}), invalid_argument, {other});
  EXPECT_ERROR(of({{"n", DType::int64, {1}}}), invalid_argument, {"\"n\" int64[1]", other});
  EXPECT_ERROR(of({{"n", DType::int64, {}, true}}), invalid_argument, {other});
  EXPECT_ERROR(of({{"n", DType::int64, {}}, {"x", DType::int8, {}, true}}), invalid_argument,
               {"\"x\" is ragged", "leave it out"});
  EXPECT_ERROR(episode_lengths(*numbered(DType::int64, {4, 5, 4}, {3, 2, 9}), "n"), invalid_argument,
               {"row 5 is of an episode that ended before the one at row 3", "sort the rows"});
  const auto bad = numbered(DType::int8, {1}, {9});
  bad->corrupt = {4};
  EXPECT_ERROR(episode_lengths(*bad, "n"), corrupt, {"the bytes are wrong"});
}

}  // namespace rota::test::window_episodes_test
