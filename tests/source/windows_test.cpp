#include "source/numbered_rows.hpp"
#include "source/reading.hpp"

namespace rota::test::windows_test {

const std::vector<Numbers> kLayouts = {
    {0}, {1}, {10}, {3, 4, 5}, {1, 1, 1, 1}, {0, 5, 0, 2, 9, 0}, {6, 6, 6, 6}, {0, 0, 1}, {2, 13, 1, 7}};

std::shared_ptr<const Source> over(const Numbers& parts, const WindowOptions& options) {
  return windows(std::make_shared<NumberedRows>(parts), options);
}

std::string y_of(const Numbers& rows) {
  std::string bytes;
  for (const std::int64_t row : rows) {
    for (std::size_t k = 0; k < 6; ++k) bytes += static_cast<char>(NumberedRows::y(row, k));
  }
  return bytes;
}

// Each of `wanted` holds the rows that follow its first in every field.
void expect_content(const Source& source, const Ids& wanted, const Numbers& firsts, std::int64_t length) {
  const Samples samples(source, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int64_t first = firsts[static_cast<std::size_t>(wanted[i].value)];
    const Numbers rows = numbers_from(first, first + length);
    ASSERT_EQ(samples.values<std::int64_t>(0, i), rows);
    ASSERT_EQ(samples.sample(1, i), y_of(rows));
  }
}

// Calls `check(parts, options)` for every layout of parts, length, stride, and either side of the seams.
template <typename Check>
void for_each_layout(Check check) {
  for (const Numbers& parts : kLayouts) {
    for (const std::int64_t length : {1, 2, 3, 5, 6, 9, 30}) {
      for (const std::int64_t stride : {1, 2, 3, 4, 7, 40}) {
        for (const bool across : {false, true}) {
          SCOPED_TRACE(PrintToString(parts) + " length " + std::to_string(length) + " stride " +
                       std::to_string(stride) + (across ? " across" : " within"));
          check(parts, WindowOptions{.length = length, .stride = stride, .across_files = across});
        }
      }
    }
  }
}

// What `parts` are for the windows.
Numbers seen(const Numbers& parts, bool across) {
  return across ? Numbers{std::accumulate(parts.begin(), parts.end(), std::int64_t{0})} : parts;
}

/// Counts calls.
class Watched final : public NumberedRows {
 public:
  using NumberedRows::NumberedRows;
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    calls.emplace_back(ids.begin(), ids.end());
    data = out.all(0).data();
    NumberedRows::read(ids, out);
  }

  mutable std::vector<Ids> calls;
  mutable const std::byte* data = nullptr;
};

/// In shards of these lengths.
std::shared_ptr<NumberedRows> sharded(const Numbers& parts, Numbers lengths) {
  auto rows = std::make_shared<NumberedRows>(parts);
  rows->lengths = std::move(lengths);
  return rows;
}

// Over random parts, strides and edges: mostly windows by offsets, and of a length under Edges::clamp.
template <typename Check>
void for_random_shapes(std::mt19937_64& random, Check check) {
  for (int round = 0; round < 600; ++round) {
    Numbers parts(static_cast<std::size_t>(draw(random, 1, 4)));
    for (std::int64_t& part : parts) part = draw(random, 0, 12);
    WindowOptions options{.stride = draw(random, 1, 5), .across_files = draw(random, 0, 1) == 1};
    options.edges = Edges(draw(random, 0, 1));
    for (std::int64_t offset = -7; offset <= 7; ++offset) {
      if (draw(random, 0, 4) == 0) options.offsets.push_back(offset);
    }
    if (options.offsets.empty() || draw(random, 0, 9) == 0) {
      options.offsets.clear();
      options.length = draw(random, 1, 9);
      options.edges = Edges::clamp;
    }
    SCOPED_TRACE(PrintToString(parts) + " stride " + std::to_string(options.stride) + " offsets " +
                 PrintToString(options.offsets) + " length " + std::to_string(options.length) +
                 (options.across_files ? " across" : "") + (options.edges == Edges::clamp ? " clamp" : ""));
    check(parts, options, naive_windows(seen(parts, options.across_files), options));
  }
}

void expect_windows(const Source& source, const Ids& wanted, const std::vector<NaiveWindow>& expected) {
  const Samples samples(source, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const NaiveWindow& window = expected[static_cast<std::size_t>(wanted[i].value)];
    ASSERT_EQ(samples.values<std::int64_t>(0, i), window.rows);
    ASSERT_EQ(samples.sample(1, i), y_of(window.rows));
    if (source.fields().size() == 3) ASSERT_EQ(samples.sample(2, i), window.is_real);
  }
}

TEST(Windows, ByOffsetsAreThoseOfANaiveListOverAnyPartsOffsetsStridesAndEdges) {
  std::mt19937_64 random(3);
  for_random_shapes(random, [&](const Numbers& parts, const WindowOptions& options, const auto& expected) {
    if (expected.empty() && seen(parts, true) != Numbers{0}) {
      EXPECT_ERROR(over(parts, options), invalid_argument, {"offsets are ", "clamp"});
      return;
    }
    const auto source = over(parts, options);
    ASSERT_EQ(source->size(), std::ssize(expected));
    expect_windows(*source, all_ids(*source), expected);
    if (expected.empty()) return;
    expect_windows(*source, random_ids(*source, 40, random), expected);
    const SampleId id = random_ids(*source, 1, random)[0];
    const NaiveWindow& window = expected[static_cast<std::size_t>(id.value)];
    const std::string first = "row " + std::to_string(window.rows.front());
    const std::string last = "row " + std::to_string(window.rows.back());
    EXPECT_EQ(source->where(id), first == last ? first : first + " to " + last);
    const auto plan = PlannedSource::plan_of(*source);
    const std::int64_t begin = expected.front().rows.front();
    EXPECT_EQ(plan->bring({0, source->size()}, true).bytes,
              100 * begin + expected.back().rows.back() + 1 - begin);
  });
}

// By its own row, which need not be one that it has.
TEST(Windows, ByOffsetsBelongToTheShardAndThePartThatTheirOwnRowIsIn) {
  std::mt19937_64 random(4);
  for_random_shapes(random, [&](const Numbers& parts, const WindowOptions& options, const auto& expected) {
    if (expected.empty()) return;
    const auto in_each = [&](const Numbers& lengths) {
      Numbers counts;
      std::int64_t begin = 0;
      for (const std::int64_t length : lengths) {
        counts.push_back(std::ranges::count_if(expected, [&](const auto& window) {
          return window.own >= begin && window.own < begin + length;
        }));
        begin += length;
      }
      return counts;
    };
    const std::int64_t rows = seen(parts, true)[0];
    const std::int64_t cut = draw(random, 0, rows);
    EXPECT_EQ(windows(sharded(parts, {cut, rows - cut}), options)->shard_lengths(2),
              in_each({cut, rows - cut}));
    EXPECT_EQ(over(parts, options)->part_sizes(), options.across_files ? Numbers() : in_each(parts));
  });
}

TEST(Windows, ByOffsetsReadWhatSuccessiveOnesShareOnce) {
  const auto rows = std::make_shared<Watched>(Numbers{20, 6});
  const WindowOptions options{.offsets = {-2, 0, 1, 4}, .edges = Edges::clamp};
  const auto source = windows(rows, options);
  expect_windows(*source, ids({4, 5, 6, 19, 20, 4}), naive_windows({20, 6}, options));
  EXPECT_THAT(rows->calls, ElementsAre(ids({2, 4, 5, 8, 3, 6, 9, 4, 7, 10, 17, 19, 20, 21, 24, 2, 4, 5, 8})));
}

TEST(Windows, OfAnotherEpochShareNoRow) {
  const auto rows = std::make_shared<Watched>(Numbers{20});
  Numbers x(4);
  std::vector<std::byte> y(24);
  const std::vector<BatchView::FieldMemory> memory = {{reinterpret_cast<std::byte*>(x.data()), 16, nullptr},
                                                      {y.data(), 12, nullptr}};
  windows(rows, {.offsets = {0, 3}})->read(ids({5, 5}), BatchView(memory, 0, 2, Numbers{0, 1}));
  EXPECT_THAT(rows->calls, ElementsAre(ids({5, 8, 5, 8})));
}

TEST(Windows, ByOffsetsHaveTheirNumberBeforeTheShapeAndAMaskWhereEdgesAreClamped) {
  const Field x{"x", DType::int64, {3}};
  const Field y{"y", DType::uint8, {3, 3, 2}};
  EXPECT_THAT(over({9}, {.offsets = {-2, 0, 4}})->fields(), ElementsAre(x, y));
  EXPECT_THAT(over({9}, {.offsets = {-2, 0, 4}, .edges = Edges::clamp})->fields(),
              ElementsAre(x, y, Field{"is_real", DType::uint8, {3}}));
  const auto real = told(9, {{"is_real", DType::int8, {}}});
  EXPECT_NO_THROW(windows(real, {.length = 2}));
  EXPECT_ERROR(windows(real, {.length = 2, .edges = Edges::clamp}), invalid_argument,
               {"a field \"is_real\"", "leave it out, or set edges to \"drop\""});
}

TEST(Windows, TheRowsUnderThemAreToldOf) {
  const auto source = over({5, 7}, {.length = 3, .stride = 2});  // rows 0, 2, then 5, 7, 9
  const auto plan = PlannedSource::plan_of(*source);
  EXPECT_EQ(plan->bring({1, 2}, true).bytes, 200 + 3);
  EXPECT_EQ(plan->bring({1, 4}, true).bytes, 200 + 8);
}

TEST(Windows, AreThoseOfANaiveListOverAnyPartsLengthsAndStrides) {
  std::mt19937_64 random(1);
  for_each_layout([&](const Numbers& parts, const WindowOptions& options) {
    const Numbers firsts = naive_windows(seen(parts, options.across_files), options.length, options.stride);
    if (firsts.empty() && seen(parts, true) != Numbers{0}) {
      EXPECT_ERROR(over(parts, options), invalid_argument, {"length is " + std::to_string(options.length)});
      return;
    }
    const auto source = over(parts, options);
    ASSERT_EQ(source->size(), std::ssize(firsts));
    expect_content(*source, all_ids(*source), firsts, options.length);
    if (!firsts.empty()) expect_content(*source, random_ids(*source, 40, random), firsts, options.length);
  });
}

TEST(Windows, OfADatasetWithoutRowsAreNone) {
  EXPECT_EQ(over({}, {.length = 5})->size(), 0);
  EXPECT_EQ(over({0, 0}, {.length = 5})->size(), 0);
  EXPECT_THAT(over({0, 0}, {.length = 5})->part_sizes(), ElementsAre(0, 0));
}

TEST(Windows, PutTheirLengthBeforeTheShapeOfEveryField) {
  EXPECT_THAT(over({9}, {.length = 4})->fields(),
              ElementsAre(Field{"x", DType::int64, {4}}, Field{"y", DType::uint8, {4, 3, 2}}));
}

TEST(Windows, AreReadByOneCallIntoTheirPlaceInTheBatch) {
  const auto rows = std::make_shared<Watched>(Numbers{20, 20});
  const auto source = windows(rows, {.length = 4, .stride = 2});
  Numbers x(std::size_t{6} * 4, -1);
  std::vector<std::byte> y(std::size_t{6} * 24);
  const std::vector<BatchView::FieldMemory> memory = {{reinterpret_cast<std::byte*>(x.data()), 32, nullptr},
                                                      {y.data(), 24, nullptr}};
  source->read(ids({9, 0, 17}), BatchView(memory, 0, 6).part(2, 3));
  EXPECT_EQ(rows->calls.size(), 1U);
  EXPECT_EQ(rows->data, reinterpret_cast<const std::byte*>(&x[8]));
  EXPECT_EQ(x, (Numbers{-1, -1, -1, -1, -1, -1, -1, -1, 20, 21, 22, 23,
                        0,  1,  2,  3,  36, 37, 38, 39, -1, -1, -1, -1}));
  source->read({}, BatchView(memory, 0, 0));
}

TEST(Windows, ReadWhatSuccessiveOnesShareOnce) {
  const auto rows = std::make_shared<Watched>(Numbers{20, 20});
  const auto source = windows(rows, {.length = 4, .stride = 2});
  const auto firsts = naive_windows({20, 20}, 4, 2);
  expect_content(*source, ids({0, 1, 2, 2, 4, 8, 9, 5, 4, 5}), firsts, 4);
  EXPECT_THAT(rows->calls, ElementsAre(ids({0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 16, 17, 18,
                                            19, 20, 21, 22, 23, 10, 11, 12, 13, 8, 9,  10, 11, 12, 13})));
}

TEST(Windows, BelongToTheShardThatTheirFirstRowIsIn) {
  std::mt19937_64 random(2);
  for_each_layout([&](const Numbers& parts, const WindowOptions& options) {
    const std::int64_t rows = seen(parts, true)[0];
    const Numbers firsts = naive_windows(seen(parts, options.across_files), options.length, options.stride);
    if (firsts.empty()) return;
    Numbers bounds = {0, 0, rows};
    for (int k = 0; k < 4; ++k) bounds.push_back(static_cast<std::int64_t>(random() % 100) % (rows + 1));
    std::sort(bounds.begin(), bounds.end());
    Numbers lengths;
    Numbers expected;
    for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
      lengths.push_back(bounds[s + 1] - bounds[s]);
      expected.push_back(std::count_if(firsts.begin(), firsts.end(), [&](std::int64_t first) {
        return first >= bounds[s] && first < bounds[s + 1];
      }));
    }
    EXPECT_EQ(windows(sharded(parts, lengths), options)->shard_lengths(6), expected);
  });
  EXPECT_THAT(over({9}, {.length = 3})->shard_lengths(4), IsEmpty());
}

TEST(Windows, OfWindowsStayInTheirPart) {
  const std::shared_ptr<const Source> days = over({5, 4, 7}, {.length = 2, .stride = 2});
  EXPECT_THAT(days->part_sizes(), ElementsAre(2, 2, 3));
  const auto pairs = windows(days, {.length = 2});
  EXPECT_THAT(pairs->fields()[1].shape, ElementsAre(2, 2, 3, 2));
  const Samples samples(*pairs, all_ids(*pairs));
  EXPECT_EQ(pairs->size(), 4);
  EXPECT_THAT(samples.values<std::int64_t>(0, 1), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(samples.values<std::int64_t>(0, 3), ElementsAre(11, 12, 13, 14));
  EXPECT_THAT(over({5, 4}, {.length = 2, .across_files = true})->part_sizes(), IsEmpty());
}

TEST(Windows, AreToldApartByRowsPartsAndOptions) {
  const WindowOptions options{.length = 4, .stride = 2};
  const auto known = over({20, 20}, options)->fingerprint();
  EXPECT_EQ(over({20, 20}, options)->fingerprint(), known);
  EXPECT_NE(NumberedRows({20, 20}).fingerprint(), known);
  EXPECT_NE(over({20, 21}, options)->fingerprint(), known);
  EXPECT_NE(over({22, 18}, options)->fingerprint(), known);
  EXPECT_NE(over({20, 20}, {.length = 3, .stride = 2})->fingerprint(), known);
  EXPECT_NE(over({20, 20}, {.length = 4, .stride = 3})->fingerprint(), known);
  const WindowOptions across{.length = 4, .stride = 2, .across_files = true};
  EXPECT_NE(over({20, 20}, across)->fingerprint(), known);
  EXPECT_EQ(over({40}, across)->fingerprint(), over({40}, options)->fingerprint());  // which has no seams
  // As ever, without offsets and edges.
  FingerprintBuilder plain;
  plain.add("windows").add(NumberedRows({20, 20}).fingerprint()).add(Numbers{20, 20}).add(4).add(2);
  EXPECT_EQ(plain.finish(), known);
  const std::vector<WindowOptions> others{
      {.length = 4, .stride = 2, .edges = Edges::clamp},
      {.stride = 2, .offsets = {0, 1, 2, 3}},
      {.stride = 2, .offsets = {0, 1, 2, 4}},
      {.stride = 2, .offsets = {0, 1, 2, 3}, .edges = Edges::clamp},
  };
  std::set<std::string> all{to_string(known)};
  for (const WindowOptions& other : others) all.insert(to_string(over({20, 20}, other)->fingerprint()));
  EXPECT_EQ(all.size(), 5U);
}

TEST(Windows, SayWhereTheirFirstAndLastRowsAre) {
  const auto source = over({7, 7}, {.length = 3, .stride = 2});
  EXPECT_EQ(source->where({4}), "row 9 to row 11");
  EXPECT_EQ(over({7}, {.length = 1, .stride = 2})->where({2}), "row 4");
  EXPECT_EQ(source->where({6}), "");
  EXPECT_EQ(source->where({-1}), "");
}

TEST(Windows, RefuseWhatCannotBe) {
  EXPECT_ERROR(Samples(*over({7, 7}, {.length = 3, .stride = 2}), ids({0, 6})), out_of_range,
               {"sample 6", "6 samples"});
  EXPECT_ERROR(over({5, 9, 3}, {.length = 10}), invalid_argument,
               {"length is 10", "no file has more than 9 of the 17", "across_files"});
  EXPECT_ERROR(over({5, 9, 3}, {.length = 18}), invalid_argument, {"length is 18", "the dataset has 17"});
  EXPECT_ERROR(over({5, 5}, {.offsets = {-3, 3}}), invalid_argument,
               {"offsets are -3 to 3", "more than 5 of the 10", "clamp", "across_files"});
  EXPECT_ERROR(over({9}, {.stride = 9, .offsets = {-1, 1}}), invalid_argument,
               {"stride of 9", "has 9", "clamp"});
  const auto ragged = told(9, {{"x", DType::int8, {}}, {"events", DType::int8, {}, true}});
  EXPECT_ERROR(windows(ragged, {.length = 2}), invalid_argument, {"\"events\" is ragged"});
}

TEST(Windows, TakeAbsurdOptionsWithoutOverflow) {
  constexpr std::int64_t kMost = kMaxCount;
  const auto huge = told(kMost);
  EXPECT_EQ(windows(huge, {.length = 1})->size(), kMost);
  EXPECT_EQ(windows(huge, {.length = 2, .stride = kMost})->size(), 1);
  const auto two = windows(huge, {.length = 2, .stride = kMost - 2});
  EXPECT_EQ(two->size(), 2);
  Ids rows;
  huge->on_read = [&](SampleId id) { rows.push_back(id); };
  const Samples unused(*two, ids({1}));
  EXPECT_EQ(rows, ids({kMost - 2, kMost - 1}));
  EXPECT_ERROR(windows(huge, {.length = kMost}), invalid_argument, {"8 bytes each in field \"x\"", "2^50"});
  const auto far = windows(huge, {.stride = kMost, .offsets = {-kMost, kMost}, .edges = Edges::clamp});
  EXPECT_EQ(far->size(), 1);
  rows.clear();
  EXPECT_EQ(Samples(*far, ids({0})).sample(1, 0), std::string(2, '\0'));
  EXPECT_EQ(rows, ids({0, kMost - 1}));
  EXPECT_EQ(windows(huge, {.offsets = {-1, kMost - 3}})->size(), 2);
  EXPECT_ERROR(windows(huge, {.offsets = {-kMost, 0}}), invalid_argument, {"clamp"});
  EXPECT_ERROR(windows(huge, {.length = kMost, .edges = Edges::clamp}), invalid_argument, {"2^50"});
  const auto empty = told(100, {{"x", DType::int64, {0}}});
  EXPECT_NO_THROW(Samples(*windows(empty, {.length = 7}), ids({3, 4})));
}

}  // namespace rota::test::windows_test
