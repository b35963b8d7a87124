#include "order/naive_epoch.hpp"
#include "order/schedule.hpp"
#include "test.hpp"

namespace rota::test::schedule_test {

std::vector<std::int64_t> ids_of(const Order& order, const std::vector<ShardSpan>& spans) {
  std::vector<std::int64_t> ids;
  for (const ShardSpan& span : spans) {
    std::vector<SampleId> part(static_cast<std::size_t>(span.count));
    order.epoch(span.epoch).samples(std::span(&span, 1), part.data());
    for (const SampleId id : part) ids.push_back(id.value);
  }
  return ids;
}

std::int64_t draw(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

ShardPlan random_plan(std::mt19937_64& random) {
  const std::int64_t shards = draw(random, 1, 40);
  const std::int64_t interleave = draw(random, 0, 3) == 0 ? draw(random, 1, shards) : 0;
  if (draw(random, 0, 1) == 0) return ShardPlan::equal(draw(random, 1, 300), shards, interleave);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(shards));
  const std::int64_t kind = draw(random, 0, 2);
  for (auto& n : lengths)
    n = kind == 0 ? draw(random, 0, 20) : kind == 1 ? draw(random, 0, 1) * 7 : draw(random, 3, 5);
  lengths[0] += 1;
  return ShardPlan::ragged(lengths, interleave);
}

Shuffle random_shuffle(std::mt19937_64& random) { return static_cast<Shuffle>(draw(random, 0, 3)); }

/// The ids of a global batch as the documentation defines them.
std::vector<std::int64_t> naive_batch(const Order& order, const GlobalBatch& batch) {
  std::vector<std::int64_t> ids;
  const std::int64_t n = order.plan().samples();
  for (const TurnRange& range : batch.turn_ranges) {
    const auto turns = naive::turns(order, range.epoch);
    for (std::int64_t at = range.begin; at < range.end;) {  // padding may go round the epoch more than once
      const std::int64_t end = std::min(range.end, (at / n + 1) * n);
      const auto part = naive::ids(order, range.epoch, turns, at % n, end - at / n * n);
      ids.insert(ids.end(), part.begin(), part.end());
      at = end;
    }
  }
  return ids;
}

TEST(Schedule, AgreesWithTheNaiveOneAtAnyPlanShuffleTailAndBatchSize) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Order order(random_plan(random), random_shuffle(random), seed, {.samples = 8, .blocks = 3});
    Schedule schedule(order, static_cast<Tail>(draw(random, 0, 3)), 3);
    Position at;
    GlobalBatch batch;
    std::vector<ShardSpan> spans;
    const std::int64_t largest = draw(random, 1, 2 * order.plan().samples());
    for (int step = 0; step < 60 && schedule.batch(at, draw(random, 1, largest), batch); ++step) {
      const auto expected = naive_batch(order, batch);
      ASSERT_EQ(static_cast<std::int64_t>(expected.size()), batch.size);
      const std::int64_t parts = draw(random, 1, 9);
      std::vector<std::int64_t> seen;
      for (std::int64_t r = 0; r < parts; ++r) {
        schedule.slice(batch, share(batch.size, r, parts), share(batch.size, r + 1, parts), spans);
        const auto slice = ids_of(order, spans);
        ASSERT_EQ(static_cast<std::int64_t>(slice.size()),
                  share(batch.size, r + 1, parts) - share(batch.size, r, parts));
        seen.insert(seen.end(), slice.begin(), slice.end());
      }
      ASSERT_EQ(seen, expected) << "step " << step;
      at = batch.next;
    }
  }
}

TEST(Schedule, AnyPlaceIsReachedWithoutTheStepsBefore) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Order order(random_plan(random), random_shuffle(random), seed, {.samples = 8, .blocks = 3});
    Schedule walked(order, Tail::carry, 2);
    GlobalBatch batch;
    std::vector<ShardSpan> spans;
    std::vector<ShardSpan> jumped;
    std::vector<GlobalBatch> batches;
    for (Position at; walked.batch(at, 7, batch); at = batch.next) batches.push_back(batch);
    Schedule wanderer(order, Tail::carry, 2);
    for (int jump = 0; jump < 20; ++jump) {
      const GlobalBatch& there =
          batches[static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(batches.size()) - 1))];
      wanderer.slice(there, 0, there.size, jumped);
      Schedule(order, Tail::carry, 2).slice(there, 0, there.size, spans);
      ASSERT_EQ(spans, jumped);
    }
  }
}

TEST(Schedule, CursorsCountTheTurnsOfEveryShardAndAddUpToTheConsumed) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Order order(random_plan(random), random_shuffle(random), seed);
    Schedule schedule(order, Tail::partial, 5);
    const auto turns = naive::turns(order, 1);
    const std::int64_t consumed = draw(random, 0, order.plan().samples());
    std::vector<std::int64_t> expected(static_cast<std::size_t>(order.plan().shards()));
    for (std::int64_t t = 0; t < consumed; ++t)
      ++expected[static_cast<std::size_t>(turns[static_cast<std::size_t>(t)].shard)];
    const std::int64_t first = draw(random, 0, order.plan().shards() - 1);
    std::vector<std::int64_t> cursors(static_cast<std::size_t>(2 * (order.plan().shards() - first)));
    schedule.cursors({.epoch = 1, .consumed = consumed, .step = 0}, first, cursors);
    for (std::size_t i = 0; i < cursors.size() / 2; ++i) {
      ASSERT_EQ(cursors[2 * i], 1);
      ASSERT_EQ(cursors[2 * i + 1], expected[static_cast<std::size_t>(first) + i]);
    }
  }
}

TEST(Schedule, TellsWhenASampleHasItsTurn) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const Order order(random_plan(random), random_shuffle(random), seed, {.samples = 8, .blocks = 3});
    Schedule schedule(order, Tail::partial, 5);
    const auto turns = naive::turns(order, 2);
    for (std::size_t t = 0; t < turns.size(); ++t) {
      const SampleId id = order.epoch(2).sample({turns[t].shard}, turns[t].position);
      ASSERT_EQ(schedule.turn(2, id), (Turn{.epoch = 2, .consumed = static_cast<std::int64_t>(t)}))
          << "seed " << seed;
    }
  }
}

struct TailCase {
  Tail tail;
  std::vector<std::int64_t> sizes;  // of two epochs of 10 samples in batches of 4
  std::int64_t real;
};

TEST(Schedule, EndsAnEpochAsTheTailSays) {
  const Order order(ShardPlan::equal(10, 3), Shuffle::global, 1);
  const TailCase cases[] = {{Tail::partial, {4, 4, 2, 4, 4, 2}, 20},
                            {Tail::carry, {4, 4, 4, 4, 4}, 20},
                            {Tail::drop, {4, 4, 4, 4}, 16},
                            {Tail::pad, {4, 4, 4, 4, 4, 4}, 20}};
  for (const TailCase& c : cases) {
    Schedule schedule(order, c.tail, 2);
    GlobalBatch batch;
    std::vector<std::int64_t> sizes;
    std::int64_t real = 0;
    Position at;
    for (; schedule.batch(at, 4, batch); at = batch.next) {
      sizes.push_back(batch.size);
      real += batch.real;
    }
    EXPECT_EQ(sizes, c.sizes) << to_string(c.tail);
    EXPECT_EQ(real, c.real) << to_string(c.tail);
    EXPECT_EQ(at, (Position{.epoch = 2, .consumed = 0, .step = static_cast<std::int64_t>(c.sizes.size())}));
  }
}

TEST(Schedule, TheLastEpochOfCarryEndsShort) {
  Schedule schedule(Order(ShardPlan::equal(10, 3), Shuffle::none, 0), Tail::carry, 1);
  GlobalBatch batch;
  ASSERT_TRUE(schedule.batch({.epoch = 0, .consumed = 8, .step = 2}, 4, batch));
  EXPECT_EQ(batch.size, 2);
  EXPECT_EQ(batch.next, (Position{.epoch = 1, .consumed = 0, .step = 3}));
  EXPECT_FALSE(schedule.batch(batch.next, 4, batch));
}

TEST(Schedule, EndsWithoutAStepWhereThereIsNothingToTake) {
  GlobalBatch batch;
  EXPECT_FALSE(Schedule(Order(ShardPlan::equal(0, 5), Shuffle::global, 0), Tail::pad, 3).batch({}, 4, batch));
  EXPECT_FALSE(
      Schedule(Order(ShardPlan::equal(3, 5), Shuffle::global, 0), Tail::drop, 3).batch({}, 4, batch));
  EXPECT_FALSE(
      Schedule(Order(ShardPlan::equal(3, 5), Shuffle::global, 0), Tail::partial, 0).batch({}, 4, batch));
}

TEST(Schedule, FindsNoBatchWhereThereAreNoSamples) {
  for (const Tail tail : {Tail::partial, Tail::carry, Tail::drop, Tail::pad}) {
    const Schedule schedule(Order(ShardPlan::equal(0, 1), Shuffle::none, 0), tail, 1);
    EXPECT_EQ(schedule.find({}, 4, {}), std::nullopt);
  }
}

TEST(Schedule, PadsABatchLargerThanTheDatasetWithAllOfItAgain) {
  Schedule schedule(Order(ShardPlan::equal(3, 1), Shuffle::none, 0), Tail::pad, 1);
  GlobalBatch batch;
  std::vector<ShardSpan> spans;
  ASSERT_TRUE(schedule.batch({}, 8, batch));
  schedule.slice(batch, 0, 8, spans);
  EXPECT_EQ(ids_of(schedule.order(), spans), (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(batch.real, 3);
  for (const ShardSpan& span : spans)
    EXPECT_EQ(span.kind, &span == spans.data() ? SlotKind::sample : SlotKind::pad);
}

TEST(Schedule, OneShardWithoutShuffleIsPlainFileOrder) {
  Schedule schedule(Order(ShardPlan::equal(100, 1), Shuffle::none, 0), Tail::partial, 1);
  GlobalBatch batch;
  std::vector<ShardSpan> spans;
  ASSERT_TRUE(schedule.batch({.epoch = 0, .consumed = 40, .step = 0}, 10, batch));
  schedule.slice(batch, 2, 5, spans);
  EXPECT_EQ(spans, (std::vector<ShardSpan>{{.epoch = 0, .shard = {0}, .position = 42, .count = 3}}));
}

TEST(Schedule, RefusesAPlaceOutside) {
  const Schedule schedule(Order(ShardPlan::equal(10, 1), Shuffle::none, 0), Tail::partial, 1);
  GlobalBatch batch;
  EXPECT_THROW(static_cast<void>(schedule.batch({.epoch = 0, .consumed = 11, .step = 0}, 1, batch)), Error);
  EXPECT_THROW(static_cast<void>(schedule.batch({.epoch = -1, .consumed = 0, .step = 0}, 1, batch)), Error);
}

TEST(Schedule, HoldsAtMost24BytesAShard) {
  constexpr std::int64_t kShards = 100'000;
  std::vector<std::int64_t> lengths(kShards);
  for (std::int64_t s = 0; s < kShards; ++s) lengths[static_cast<std::size_t>(s)] = 1 + s * 7919 % 20'000;
  for (const std::int64_t interleave : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}}) {
    for (const ShardPlan& plan :
         {ShardPlan::ragged(lengths, interleave), ShardPlan::equal(1'000'000, kShards, interleave)}) {
      Schedule schedule(Order(plan, Shuffle::within, 3), Tail::partial, 1);
      GlobalBatch batch;
      std::vector<ShardSpan> spans;
      // In one step every shard ends: the worst there is.
      ASSERT_TRUE(schedule.batch({}, plan.samples(), batch));
      schedule.slice(batch, 0, 32, spans);
      EXPECT_LE(schedule.memory_bytes(), 24U * kShards);
    }
  }
}

}  // namespace rota::test::schedule_test
