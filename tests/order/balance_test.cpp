#include "rota/balance.hpp"

#include "order/balance.hpp"

namespace rota::test::balance_test {

constexpr std::array<int, 12> kWorlds = {1, 2, 3, 5, 7, 11, 13, 17, 23, 29, 31, 64};

Lengths lengths_up_to(std::int64_t samples, std::int64_t most) {
  Numbers lengths;
  for (std::int64_t i = 0; i < samples; ++i) lengths.push_back((i * 7919 + i * i) % (most + 1));
  return Lengths(lengths);
}

Balance balance_of(Lengths lengths) {
  return {.columns = {{.lengths = std::move(lengths), .quadratic = 0.5}}};
}

using Slots = std::map<std::int64_t, std::tuple<std::int64_t, std::int64_t, SlotKind, std::int32_t>>;

void add(Slots& slots, const RunSlice& slice) {
  for (std::size_t i = 0; i < slice.slots.size(); ++i) {
    const bool is_new = slots
                            .try_emplace(slice.slots[i], slice.ids[i].value, slice.epochs[i], slice.kinds[i],
                                         slice.datasets[i])
                            .second;
    EXPECT_TRUE(is_new) << "slot " << slice.slots[i];
  }
}

/// Each step of a run in any world has the slots that it has without balance, each on one rank, which `when`
/// knows; and as many micro-batches on each rank.
void expect_same_batches(rota::Run run, const Balance& balance, int ranks) {
  RunSlice whole;
  RunSlice slice;
  while (run.slice(whole)) {
    Slots expected;
    add(expected, whole);
    Slots slots;
    double most = 0;
    std::set<std::size_t> micro_batches;
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(run.slice(slice, {.rank = rank, .size = ranks}, Split::balanced, balance));
      add(slots, slice);
      micro_batches.insert(slice.micro_ends.size());
      EXPECT_TRUE(std::ranges::is_sorted(slice.micro_ends));
      EXPECT_EQ(slice.micro_ends.back(), std::ssize(slice.slots));
      std::size_t begin = 0;
      for (const std::int64_t end : slice.micro_ends) {
        const auto part = std::span(slice.slots).first(static_cast<std::size_t>(end)).subspan(begin);
        EXPECT_TRUE(std::ranges::is_sorted(part));
        begin = static_cast<std::size_t>(end);
      }
      most = std::max(most, slice.costs.rank);
      if (!slice.ids.empty() && slice.kinds.front() == SlotKind::sample) {
        EXPECT_EQ(run.when(slice.ids.front(), slice.epochs.front(), ranks, Split::balanced, balance),
                  (BatchSlot{slice.start.step, rank, slice.slots.front()}));
      }
    }
    EXPECT_EQ(slots, expected);
    EXPECT_EQ(micro_batches.size(), 1U);
    EXPECT_DOUBLE_EQ(slice.costs.most, most);
    run.advance();
  }
}

TEST(Balance, LeavesAllBatchesAsTheyAreInAnyWorld) {
  for (const int ranks : kWorlds) {
    rota::Run run(500, {.global_batch_size = 97, .seed = 3, .tail = Tail::pad, .epochs = 2});
    Balance balance = balance_of(lengths_up_to(500, 300));
    expect_same_batches(run, balance, ranks);
    balance.micro_batches = 3;
    balance.equal_counts = false;
    expect_same_batches(run, balance, ranks);
    balance.micro_batches = 1;
    balance.micro_cost = 30'000;
    expect_same_batches(run, balance, ranks);
    balance.padded = true;
    expect_same_batches(run, balance, ranks);
  }
  const rota::Run mixture({{.samples = 40}, {.samples = 90, .shard_lengths = {10, 50, 30}}},
                          {.global_batch_size = 16, .shards = 3, .weights = {1, 3}});
  expect_same_batches(mixture, balance_of(lengths_up_to(130, 10)), 4);
}

TEST(Balance, KnowsWhatABatchCosts) {
  const rota::Run run(6, {.global_batch_size = 4, .shuffle = Shuffle::none, .tail = Tail::pad});
  const Lengths tokens(Numbers{9, 1, 2, 3, 4, 5});
  const Lengths trained(Numbers{1, 1, 0, 2, 4, 0});
  const Balance balance{
      .columns = {{.lengths = trained, .linear = 0}, {.lengths = tokens, .linear = 2, .quadratic = 1}}};
  RunSlice slice;
  ASSERT_TRUE(run.slice(slice, {.rank = 0, .size = 2}, Split::balanced, balance));
  EXPECT_EQ(slice.global_sums, (Numbers{4, 15}));
  EXPECT_EQ(slice.ids, (std::vector<SampleId>{{0}, {1}}));
  EXPECT_EQ(slice.costs, (BatchCosts{.global = 99 + 3 + 8 + 15,
                                     .rank = 99 + 3,
                                     .most = 99 + 3,
                                     .most_by_sample = 99 + 3,
                                     .largest = 99}));
  ASSERT_TRUE(run.at(1)->slice(slice, {.rank = 0, .size = 2}, Split::balanced, balance));
  EXPECT_EQ(slice.global_sums, (Numbers{4, 9})) << "padding does not count";
  EXPECT_EQ(slice.costs.global, 24 + 35 + 99 + 3) << "but is trained";
}

TEST(Balance, OfFractionsIsThatOfIntegers) {
  EXPECT_EQ(quantise({.linear = 8192, .quadratic = 1}, 9, 1).linear, 8192);
  EXPECT_EQ(quantise({.linear = 8192, .quadratic = 1}, 9, 1).unit, 1);
  const Cost cost = quantise({.linear = 0.3, .quadratic = 1e-4}, 0, 1);
  EXPECT_EQ(cost.linear, 0x4CCCCCCD);
  EXPECT_EQ(cost.quadratic, 429'497);
  EXPECT_EQ(cost.unit, 0x1p32);
  EXPECT_EQ(quantise({.linear = 1e300}, 0, 1).linear, 0x5F90F220);
  EXPECT_FALSE(quantise({.linear = 0}, 9, 1).is_any());
  EXPECT_EQ(quantise({.quadratic = 0.5}, 9, 1).quadratic, 1) << "as few digits as it takes";
  const Cost rounded = quantise({.linear = 0.001, .quadratic = 0.0003}, 1 << 20, 65'536);
  const auto quadratic = static_cast<double>(rounded.quadratic);
  EXPECT_LE(quadratic * 0x1p40 * 65'536, 0x1p62) << "it fits in any batch";
  EXPECT_NEAR(quadratic / rounded.unit, 0.0003, 1e-5);
  const Cost tiny = quantise({.linear = 1e-20, .quadratic = 3e-25}, 8192, 1024);
  EXPECT_NEAR(static_cast<double>(tiny.linear) / tiny.unit, 1e-20, 1e-26);
  const Cost dear = quantise({.linear = 8192, .quadratic = 1}, 1 << 27, 1024);
  EXPECT_GT(dear.linear, std::int64_t{1} << 61) << "never rounded to nothing: it is refused";
}

TEST(Balance, OfABatchKnowsNothingOfSamplesThatItHasNot) {
  Numbers lengths = numbers_from(1, 101);
  const rota::Run run(100, {.global_batch_size = 10, .shuffle = Shuffle::none});
  RunSlice before;
  RunSlice after;
  ASSERT_TRUE(run.slice(before, {.size = 3}, Split::balanced,
                        {.columns = {{.lengths = Lengths(lengths), .quadratic = 1}}}));
  lengths[77] = std::int64_t{1} << 31;
  const Balance balance{.columns = {{.lengths = Lengths(lengths), .quadratic = 1}}};
  ASSERT_TRUE(run.slice(after, {.size = 3}, Split::balanced, balance));
  EXPECT_EQ(after.costs, before.costs);
  EXPECT_EQ(after.slots, before.slots);
  const rota::Run pads(3, {.global_batch_size = 32, .tail = Tail::pad});
  const Balance too_much{.columns = {{.lengths = Lengths(Numbers(3, std::int64_t{1} << 62))}}};
  EXPECT_THAT([&] { static_cast<void>(pads.slice(after, {}, Split::balanced, too_much)); },
              Throws<Error>(Property(&Error::code, ErrorCode::out_of_range)));
}

TEST(Balance, RefusesLengthsThatDoNotFit) {
  const rota::Run run(10);
  RunSlice slice;
  const auto refused = [&](const Balance& balance, ErrorCode code, const std::string& why) {
    EXPECT_THAT([&] { static_cast<void>(run.slice(slice, {}, Split::balanced, balance)); },
                Throws<Error>(AllOf(Property(&Error::code, code), Property(&Error::what, HasSubstr(why)))));
  };
  refused({}, ErrorCode::invalid_argument, "columns is missing");
  refused(balance_of(lengths_up_to(9, 5)), ErrorCode::invalid_argument, "of 9 samples, and 10 samples");
  refused({.columns = {{.field = "tokens"}}}, ErrorCode::invalid_argument, "asked for by a loader");
  Balance balance = balance_of(lengths_up_to(10, 5));
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    balance.columns[0].linear = bad;
    refused(balance, ErrorCode::invalid_argument, "linear is");
  }
  balance.columns[0] = {.lengths = Lengths(Numbers(10, std::int64_t{1} << 62))};
  refused(balance, ErrorCode::out_of_range, "2^62");
  balance.columns[0].quadratic = 1;
  refused(balance, ErrorCode::out_of_range, "2^62");
  balance.columns[0].linear = balance.columns[0].quadratic = 0;
  refused(balance, ErrorCode::invalid_argument, "linear and quadratic is 0 in all columns");
  balance = balance_of(lengths_up_to(10, 5));
  balance.micro_batches = 0;
  refused(balance, ErrorCode::invalid_argument, "micro_batches is 0");
  balance.micro_batches = 2;
  balance.micro_cost = 3;
  refused(balance, ErrorCode::invalid_argument, "micro_batches is 2");
  balance.columns.push_back(balance.columns[0]);
  balance.micro_batches = 1;
  refused(balance, ErrorCode::invalid_argument, "micro_cost is 3");
  balance.micro_cost = 0;
  balance.padded = true;
  refused(balance, ErrorCode::invalid_argument, "padded");
  EXPECT_THAT([&] { static_cast<void>(run.slice(slice, {}, Split::by_shard, balance)); },
              Throws<Error>(Property(&Error::what, HasSubstr("split is by_shard"))));
  EXPECT_THAT([&] { static_cast<void>(run.when({1}, 0, 2, Split::balanced)); },
              Throws<Error>(Property(&Error::what, HasSubstr("columns is missing"))));
}

TEST(Lengths, AreOfFourBytesWhereTheyFitAndRefuseWhatIsNone) {
  const Lengths none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.most(), 0);
  const Numbers wide = {1, std::int64_t{1} << 31, 0};
  const Lengths some(wide);
  EXPECT_EQ(some[{1}], std::int64_t{1} << 31);
  EXPECT_EQ(some.most(), std::int64_t{1} << 31);
  const std::vector<std::int32_t> narrow = {4, 0, 7};
  EXPECT_EQ(Lengths(narrow).digest(), Lengths(Numbers{4, 0, 7}).digest());
  EXPECT_NE(Lengths(narrow).digest(), Lengths(Numbers{4, 0, 8}).digest());
  EXPECT_THAT(
      [] {
        Lengths(Numbers{4, -1});
      },
      Throws<Error>(Property(&Error::what, HasSubstr("sample 1 is -1"))));
}

}  // namespace rota::test::balance_test
