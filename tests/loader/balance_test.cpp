// Split::balanced of loaders: lengths of the data, resumes, and what is refused.

#include "rota/balance.hpp"

#include "loader/course.hpp"
#include "messages.hpp"
#include "rota/resume.hpp"

namespace rota::test::balance_test {

LoaderOptions in_balance(Balance balance, LoaderOptions options = {}) {
  options.rank_split = Split::balanced;
  options.balance = std::move(balance);
  return options;
}

Balance of_field(std::string field) { return {.columns = {{.field = std::move(field)}}}; }

TEST(Balanced, LoadersAskTheSourceForLengthsAndGiveEachRankAsMuch) {
  const auto source = counting(700);  // texts of 0 to 6 bytes
  std::array<std::atomic<int>, 700> reads{};
  source->on_read = [&](SampleId id) { ++reads[static_cast<std::size_t>(id.value)]; };
  const LoaderOptions options =
      in_balance(of_field("text"), {.global_batch_size = 70, .shuffle = Shuffle::none, .workers = 2});
  SideBySide ranks(5, [&](World world) { return Loader(source, options, world); });
  const auto even = [](const Loader&, const Batch& batch) {
    EXPECT_EQ(batch.size(), 14);
    EXPECT_EQ(std::ssize(batch.tensor("text").bytes), 42);
    EXPECT_EQ(batch.costs().rank, 42);
    EXPECT_EQ(batch.costs().global, 210);
    EXPECT_GT(batch.costs().most_by_sample, 0);
    EXPECT_THAT(batch.global_sums(), ElementsAre(210));
    EXPECT_THAT(batch.micro_ends(), ElementsAre(14));
  };
  while (ranks.step(even)) continue;
  for (const auto& times : reads) EXPECT_EQ(times, 1) << "as without balance";
}

TEST(Balanced, GlobalBatchesAreTheSameThroughKillsAndOtherWorldsAndBalances) {
  for_seeds(20, [](std::uint64_t, std::mt19937_64& random) {
    Course course = random_course(kCourses[random() % kCourses.size()], random);
    std::int64_t samples = course.source ? course.source->size() : 0;
    for (const Mixture::Part& part : course.mixture.datasets) samples += part.source->size();
    course.options.rank_split = Split::by_sample;
    course.options.balance = {};
    const auto expected = course.unbroken();
    Checkpoints checkpoints;
    std::vector<Step> steps;
    for (const Turn& turn : random_turns(random, 13)) {
      course.options = in_balance(random_balance(random, samples), course.options);
      course.options.workers = turn.workers;
      SideBySide ranks(turn.ranks, [&](World world) { return course.make(world); });
      if (course.take(turn, ranks, *checkpoints, steps)) break;
    }
    EXPECT_EQ(steps, expected);
  });
}

TEST(Balanced, RefusesLengthsThatAreNotThoseOfTheData) {
  const auto source = counting(70);
  Numbers lengths(70);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i % 7);
  lengths[33] = 4;
  const Balance balance{.columns = {{.field = "text", .lengths = Lengths(lengths)}}};
  Loader loader(source, in_balance(balance, {.shuffle = Shuffle::none}), World{});
  EXPECT_TRUE(loader.next());
  EXPECT_THAT([&] { (void)loader.next(); },
              Throws<Error>(AllOf(Property(&Error::code, ErrorCode::mismatch),
                                  Property(&Error::what, HasSubstr("sample 33 (place-33)")),
                                  Property(&Error::what, HasSubstr("has 5 rows")),
                                  Property(&Error::what, HasSubstr("balance is 4")))));
  const auto refused = [&](const LoaderOptions& options, const std::string& why) {
    EXPECT_THAT([&] { Loader(source, options, World{}); },
                Throws<Error>(Property(&Error::what, HasSubstr(why))));
  };
  refused(in_balance(of_field("x")), "not ragged");
  refused(in_balance(of_field("texts")), "no field \"texts\"");
  refused(in_balance({.columns = {{.lengths = Lengths(Numbers(69))}}}), "of 69 samples, and 70 samples");
  refused(in_balance({.columns = {{.linear = 1}}}), "of 0 samples, and 70 samples");
  refused(in_balance({}), "columns is missing");
  LoaderOptions options = in_balance(of_field("text"));
  options.rank_split = Split::by_sample;
  refused(options, "rank_split is by_sample; it must be balanced where a balance is given");
  refused({.worker_split = Split::balanced}, "worker_split is balanced");
}

TEST(Balanced, SaysOnceThatOneSampleOutweighsARanksShare) {
  SinkMessages told;
  Numbers lengths(70, 1);
  lengths[3] = 1000;
  Loader loader(counting(70), in_balance({.columns = {{.lengths = Lengths(lengths)}}}, {.epochs = 3}),
                {.rank = 0, .size = 4});
  run_out(loader);
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("one sample costs 1000")));
}

TEST(Balanced, SaysOnceThatASampleIsAboveMicroCost) {
  SinkMessages told;
  Balance balance = of_field("text");
  balance.micro_cost = 5;
  Loader loader(counting(700), in_balance(balance, {.global_batch_size = 70}), World{});
  run_out(loader);
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("one sample costs 6, and micro_cost is 5")));
}

TEST(Balanced, SettlesByHandAndComesAgainInBalance) {
  const auto source = counting(200);
  LoaderOptions options = in_balance(of_field("text"), {.global_batch_size = 20});
  options.balance.micro_batches = 2;
  options.settle = Settle::by_hand;
  std::map<std::int64_t, int> trained;
  Loader loader(source, options, World{});
  std::string state;
  for (int i = 0; i < 5; ++i) {
    const auto batch = loader.next();
    ASSERT_EQ(batch->micro_ends().size(), 2U);
    const auto count = static_cast<std::size_t>(batch->micro_ends()[0]);
    loader.settle(batch->ids().first(count), batch->epochs().first(count));
    for (const SampleId id : batch->ids().first(count)) ++trained[id.value];
    state = rota::state(loader);
  }
  Loader next(source, options, World{});
  restore(next, state);
  while (const auto batch = next.next()) {
    EXPECT_EQ(batch->micro_ends().size(), 2U);
    for (const SampleId id : batch->ids()) ++trained[id.value];
    next.settle(*batch);
  }
  EXPECT_EQ(trained.size(), 200U);
  for (const auto& [id, times] : trained) EXPECT_EQ(times, 1) << id;
}

}  // namespace rota::test::balance_test
