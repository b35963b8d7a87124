#include "order/mixture_steps.hpp"
#include "order/naive_epoch.hpp"
#include "order/weighted_turns.hpp"
#include "rota/run.hpp"

namespace rota::test::mixture_test {

/// Weights from 0.001 to 0.9.
std::vector<double> random_weights(std::mt19937_64& random, std::int64_t datasets) {
  std::vector<double> weights;
  for (std::int64_t d = 0; d < datasets; ++d) {
    weights.push_back(0.001 * std::pow(900.0, std::uniform_real_distribution<double>()(random)));
  }
  return weights;
}

MixtureState fresh(Numbers weights) {
  const std::size_t datasets = weights.size();
  return {.weights = std::move(weights), .counts = Numbers(datasets)};
}

Numbers lengths_of(const std::vector<Order>& orders) {
  Numbers lengths;
  for (const Order& order : orders) lengths.push_back(order.plan().samples());
  return lengths;
}

std::int64_t sum(const Numbers& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

TEST(Weights, ThatAreRatiosOfSmallIntegersBecomeThese) {
  EXPECT_THAT(quantise(std::vector<double>{0.5, 0.3, 0.2}), ElementsAre(5, 3, 2));
  EXPECT_THAT(quantise(std::vector<double>{3, 5}), ElementsAre(3, 5));
  EXPECT_THAT(quantise(std::vector<double>{0.1, 0, 0.1}), ElementsAre(1, 0, 1));
  EXPECT_THAT(quantise(std::vector<double>{0.9}), ElementsAre(1));
  EXPECT_THAT(quantise(std::vector<double>{1e-300, 2e-300}), ElementsAre(1, 2));
}

TEST(Weights, ThatAreNotAreRoundedByLittleAndNeverToNothing) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const auto weights = random_weights(random, draw(random, 2, 10));
    const auto integers = quantise(weights);
    const auto period = static_cast<double>(sum(integers));
    const double whole = std::accumulate(weights.begin(), weights.end(), 0.0);
    EXPECT_LE(period, 65'536);
    const double least = *std::ranges::min_element(weights) / whole * 65'536;
    for (std::size_t d = 0; d < weights.size(); ++d) {
      const double share = static_cast<double>(integers[d]) / period;
      EXPECT_LE(std::abs(share * whole / weights[d] - 1), 0.6 / least);
    }
  }
  EXPECT_THAT(quantise(std::vector<double>{1, 1e-12}), ElementsAre(65'535, 1));
}

// |n w_d - P x_d| < P, in integers.
void expect_fair(const WeightedTurns& turns, std::int64_t taken) {
  const Numbers& weights = turns.state().weights;
  const std::int64_t period = sum(weights);
  const std::int64_t since = taken - turns.state().changed_at;
  for (std::size_t d = 0; d < weights.size(); ++d) {
    const std::int64_t had = turns.count(d, taken) - turns.state().counts[d];
    ASSERT_LT(std::abs(since * weights[d] - period * had), period) << "dataset " << d << " after " << taken;
  }
}

TEST(WeightedTurns, GiveEachDatasetItsShareWithinOneAfterAnyNumberOfSamples) {
  std::mt19937_64 random(5);
  for (const std::int64_t datasets : {1, 2, 3, 10}) {
    for (int round = 0; round < 4; ++round) {
      const WeightedTurns turns(fresh(quantise(random_weights(random, datasets))));
      const std::int64_t period = sum(turns.state().weights);
      for (std::int64_t taken = 0; taken <= period + 100; ++taken)
        ASSERT_NO_FATAL_FAILURE(expect_fair(turns, taken));
      ASSERT_NO_FATAL_FAILURE(expect_fair(turns, 1'000'000'007));
    }
  }
}

TEST(WeightedTurns, GiveEveryTurnToOneDatasetAndNoneToThoseWithoutWeight) {
  const WeightedTurns turns(fresh({5, 0, 3, 1}));
  for (std::int64_t taken = 0; taken < 50; ++taken) {
    std::int64_t given = 0;
    for (std::size_t d = 0; d < 4; ++d) given += turns.count(d, taken + 1) - turns.count(d, taken);
    EXPECT_EQ(given, 1);
  }
  EXPECT_EQ(turns.count(1, 1000), 0);
  EXPECT_EQ(turns.reach(1, 1), WeightedTurns::kNever);
}

TEST(WeightedTurns, KnowWhenACountIsReached) {
  const WeightedTurns turns({.weights = {7, 2, 4}, .changed_at = 10, .counts = {4, 5, 1}});
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::int64_t count = turns.state().counts[d] + 1; count < 60; ++count) {
      const std::int64_t taken = turns.reach(d, count);
      EXPECT_EQ(turns.count(d, taken), count);
      EXPECT_EQ(turns.count(d, taken - 1), count - 1);
    }
    EXPECT_EQ(turns.reach(d, turns.state().counts[d]), 10);
    EXPECT_EQ(turns.reach(d, WeightedTurns::kNever), WeightedTurns::kNever);
  }
}

TEST(WeightedTurns, GoOnFromTheCountsWhereWeightsChange) {
  const WeightedTurns before(fresh({3, 1}));
  const WeightedTurns after(before.changed({1, 1}, 17));
  EXPECT_EQ(after.state().changed_at, 17);
  for (std::size_t d = 0; d < 2; ++d) EXPECT_EQ(after.count(d, 17), before.count(d, 17));
  for (std::int64_t taken = 17; taken < 60; ++taken) expect_fair(after, taken);
}

TEST(WeightedTurns, RefuseAStateThatNoMixtureHas) {
  EXPECT_THROW(WeightedTurns({.weights = {}, .counts = {}}), Error);
  EXPECT_THROW(WeightedTurns(fresh({0, 0})), Error);
  EXPECT_THROW(WeightedTurns(fresh({-1, 2})), Error);
  EXPECT_THROW(WeightedTurns(fresh({65'536, 1})), Error);
  EXPECT_THROW(WeightedTurns({.weights = {1, 1}, .counts = {0}}), Error);
  EXPECT_THROW(WeightedTurns({.weights = {1, 1}, .changed_at = 5, .counts = {3, 3}}), Error);
  EXPECT_THROW(WeightedTurns({.weights = {1, 1}, .changed_at = 0, .counts = {3, -3}}), Error);
}

/// Dataset, epoch, and where in that.
using Place = std::tuple<std::size_t, std::int64_t, naive::Place>;

/// A mixture as the documentation tells it: turn after turn, in lists.
class NaiveMixture {
 public:
  NaiveMixture(const std::vector<Order>& orders, const WeightedTurns& turns)
      : orders_(orders), turns_(turns) {}

  /// Turns [begin, end) of the run in canonical order: dataset, epoch, sample.
  std::vector<Numbers> batch(std::int64_t begin, std::int64_t end) {
    std::vector<Place> places;
    for (std::int64_t taken = begin; taken < end; ++taken) {
      for (std::size_t d = 0; d < orders_.size(); ++d) {
        if (turns_.count(d, taken + 1) > turns_.count(d, taken))
          places.push_back(place(d, turns_.count(d, taken)));
      }
    }
    std::ranges::sort(places);
    std::vector<Numbers> out;
    for (const auto& [dataset, epoch, place] : places) {
      const SampleId id = sample_at(orders_[dataset].epoch(epoch), place.shard, place.position);
      out.push_back({static_cast<std::int64_t>(dataset), epoch, id.value});
    }
    return out;
  }

 private:
  Place place(std::size_t d, std::int64_t turn) {
    const std::int64_t samples = orders_[d].plan().samples();
    const std::int64_t epoch = turn / samples;
    auto& turns = epochs_[{d, epoch}];
    if (turns.empty()) turns = naive::turns(orders_[d], epoch);
    return {d, epoch, turns[static_cast<std::size_t>(turn % samples)]};
  }

  const std::vector<Order>& orders_;
  const WeightedTurns& turns_;
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<naive::Place>> epochs_;
};

std::vector<Order> random_orders(std::mt19937_64& random, std::int64_t datasets) {
  std::vector<Order> orders;
  const auto shards = draw(random, 1, 12);
  for (std::int64_t d = 0; d < datasets; ++d) {
    Numbers lengths(static_cast<std::size_t>(shards));
    for (auto& length : lengths) length = draw(random, 0, 9);
    lengths.front() += 1;
    const std::int64_t interleave = draw(random, 0, shards);
    orders.emplace_back(draw(random, 0, 1) == 0 ? ShardPlan::ragged(lengths, interleave)
                                                : ShardPlan::equal(draw(random, 1, 70), shards, interleave),
                        static_cast<Shuffle>(draw(random, 0, 3)), random(),
                        BlockShape{.samples = 4, .blocks = 2});
  }
  return orders;
}

std::vector<Numbers> samples_of(const std::vector<Order>& orders, const std::vector<ShardSpan>& spans) {
  std::vector<Numbers> out;
  for (const ShardSpan& span : spans) {
    const EpochOrder order = orders[static_cast<std::size_t>(span.dataset)].epoch(span.epoch);
    for (const std::int64_t id : ids_of(order, span)) out.push_back({span.dataset, span.epoch, id});
  }
  return out;
}

TEST(MixtureSteps, AgreesWithTheNaiveOneAtAnyOrdersWeightsBatchesAndSlices) {
  for_seeds(150, [&](std::uint64_t, std::mt19937_64& random) {
    const std::int64_t datasets = draw(random, 1, 5);
    const auto orders = random_orders(random, datasets);
    const WeightedTurns turns(fresh(quantise(random_weights(random, datasets))));
    const MixtureSteps steps(lengths_of(orders), {.end = MixtureEnd::steps, .steps = 40}, turns);
    std::vector<Schedule> schedules(orders.begin(), orders.end());
    NaiveMixture naive(orders, turns);
    Position at;
    GlobalBatch batch;
    std::vector<ShardSpan> spans;
    while (steps.batch(at, draw(random, 1, 60), batch)) {
      std::vector<Numbers> seen;
      const std::int64_t parts = draw(random, 1, 9);
      for (std::int64_t r = 0; r < parts; ++r) {
        Schedule::slice(schedules, batch, share(batch.size, r, parts), share(batch.size, r + 1, parts),
                        spans);
        const auto slice = samples_of(orders, spans);
        seen.insert(seen.end(), slice.begin(), slice.end());
      }
      ASSERT_EQ(seen, naive.batch(at.consumed, at.consumed + batch.size));
      at = batch.next;
    }
    EXPECT_EQ(at.step, 40);
  });
}

/// What the batches of a run count, and pad.
struct Outcome {
  std::int64_t real = 0;
  std::int64_t slots = 0;
  std::int64_t unmarked = 0;  // slots that are not marked as padding
  std::int64_t last = 0;      // slots of the last batch
};

Outcome run(const std::vector<Order>& orders, const MixtureRules& rules, const WeightedTurns& turns,
            std::int64_t size) {
  const MixtureSteps steps(lengths_of(orders), rules, turns);
  Outcome result;
  GlobalBatch batch;
  for (Position at; steps.batch(at, size, batch) && at.step < 10'000; at = batch.next) {
    result.real += batch.real;
    result.slots += batch.size;
    result.last = batch.size;
    for (const TurnRange& range : batch.turn_ranges) {
      if (range.kind == SlotKind::sample) result.unmarked += range.end - range.begin;
    }
  }
  return result;
}

std::vector<Order> two_orders(std::int64_t first, std::int64_t second) {
  return {Order(ShardPlan::equal(first, 4), Shuffle::global, 1),
          Order(ShardPlan::equal(second, 4), Shuffle::global, 2)};
}

TEST(MixtureSteps, EndsWithTheFirstDatasetOrTheLastThatIsExhaustedAndWaitsForNoneWithoutWeight) {
  const auto orders = two_orders(30, 50);
  const WeightedTurns turns(fresh({3, 1}));
  const std::int64_t first = turns.reach(0, 2 * 30);
  const std::int64_t last = turns.reach(1, 2 * 50);
  EXPECT_NEAR(static_cast<double>(first), 80, 2);
  EXPECT_NEAR(static_cast<double>(last), 400, 4);
  EXPECT_EQ(run(orders, {.end = MixtureEnd::first_exhausted, .passes = 2}, turns, 7).real, first);
  EXPECT_EQ(run(orders, {.end = MixtureEnd::all_exhausted, .passes = 2}, turns, 7).real, last);
  EXPECT_EQ(run(orders, {.end = MixtureEnd::steps, .steps = 13}, turns, 7).real, 13 * 7);
  EXPECT_EQ(run(orders, {.passes = 0}, turns, 7).real, 0);
  const WeightedTurns one_alone(fresh({1, 0}));
  EXPECT_EQ(run(orders, {.end = MixtureEnd::all_exhausted}, one_alone, 7).real, 30);
  EXPECT_EQ(run(orders, {.end = MixtureEnd::first_exhausted}, one_alone, 7).real, 30);
}

TEST(MixtureSteps, EndsAsTheTailSays) {
  const auto orders = two_orders(20, 9);
  const WeightedTurns turns(fresh({1, 1}));
  const std::int64_t samples = turns.reach(1, 9);
  ASSERT_NE(samples % 7, 0);
  EXPECT_EQ(run(orders, {.tail = Tail::partial}, turns, 7).last, samples % 7);
  EXPECT_EQ(run(orders, {.tail = Tail::drop}, turns, 7).slots, samples / 7 * 7);
  const Outcome padded = run(orders, {.tail = Tail::pad}, turns, 7);
  EXPECT_EQ(padded.real, samples);
  EXPECT_EQ(padded.last, 7);
  EXPECT_EQ(padded.unmarked, samples);
}

TEST(MixtureSteps, CountTheCursorsOfEachDatasetInItsOwnEpochs) {
  const std::vector<RunData> data{{.samples = 30}, {.samples = 17}, {.samples = 50}};
  const RunOptions how{
      .global_batch_size = 7, .shards = 4, .weights = {4, 3, 2}, .end = MixtureEnd::steps, .steps = 40};
  rota::Run mixed(data, how);
  for (; !mixed.is_over(); mixed.advance()) {
    Numbers expected;
    for (std::size_t d = 0; d < data.size(); ++d) {
      const std::int64_t count = WeightedTurns(fresh({4, 3, 2})).count(d, mixed.position().consumed);
      rota::Run alone(data[d].samples, {.shards = 4});  // of equal shards, whatever the seed
      alone.seek({.epoch = count / data[d].samples, .consumed = count % data[d].samples});
      Numbers own(8);
      alone.cursors(0, own);
      expected.insert(expected.end(), own.begin(), own.end());
    }
    Numbers cursors(24);
    mixed.cursors(0, cursors);
    ASSERT_EQ(cursors, expected);
    Numbers part(18);  // all shards but the first two and the last
    mixed.cursors(2, part);
    ASSERT_EQ(part, Numbers(expected.begin() + 4, expected.end() - 2));
  }
}

TEST(MixtureSteps, RefusesPlacesBeforeTheWeightsWereSet) {
  const MixtureSteps schedule({20}, {}, WeightedTurns({.weights = {1}, .changed_at = 5, .counts = {5}}));
  GlobalBatch batch;
  EXPECT_THROW((void)schedule.batch({.consumed = 4}, 3, batch), Error);
  EXPECT_THROW((void)schedule.batch({.epoch = 1, .consumed = 9}, 3, batch), Error);
  EXPECT_TRUE(schedule.batch({.consumed = 5}, 3, batch));
}

}  // namespace rota::test::mixture_test
