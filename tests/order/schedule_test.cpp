#include "order/schedule.hpp"

#include "allocations.hpp"
#include "order/naive_epoch.hpp"

namespace rota::test::schedule_test {

Numbers ids_of(const Order& order, const std::vector<ShardSpan>& spans) {
  Numbers ids;
  for (const ShardSpan& span : spans) {
    const auto part = test::ids_of(order.epoch(span.epoch), span);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

ShardPlan random_plan(std::mt19937_64& random) {
  const std::int64_t shards = draw(random, 1, 40);
  const std::int64_t interleave = draw(random, 0, 3) == 0 ? draw(random, 1, shards) : 0;
  if (draw(random, 0, 1) == 0) return ShardPlan::equal(draw(random, 1, 300), shards, interleave);
  Numbers lengths(static_cast<std::size_t>(shards));
  const std::int64_t kind = draw(random, 0, 2);
  for (auto& n : lengths)
    n = kind == 0 ? draw(random, 0, 20) : kind == 1 ? draw(random, 0, 1) * 7 : draw(random, 3, 5);
  lengths[0] += 1;
  return ShardPlan::ragged(lengths, interleave);
}

/// Of what there is at random, as `random` says.
Order random_order(std::mt19937_64& random, std::uint64_t seed) {
  const ShardPlan plan = random_plan(random);
  return Order(plan, static_cast<Shuffle>(draw(random, 0, 3)), seed, {.samples = 8, .blocks = 3});
}

/// The ids of a global batch as the documentation defines them.
Numbers naive_batch(const Order& order, const GlobalBatch& batch) {
  Numbers ids;
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

/// Ranks, and workers of each, more than there are shards or samples in a batch, and fewer.
using World = std::pair<std::int64_t, std::int64_t>;
constexpr World kWorlds[] = {{8, 2}, {7, 1}, {13, 3}, {1, 5}, {32, 1}, {5, 4}, {64, 8}, {1, 1}};

/// What the workers of a world get of a batch, each its share of its rank's, which has a schedule of its own.
std::vector<ShardSpan> dealt(std::vector<Scheduled>& ranks, std::int64_t workers, const Position& at,
                             std::int64_t size, GlobalBatch& batch) {
  std::vector<ShardSpan> all;
  std::vector<ShardSpan> spans;
  for (std::size_t r = 0; r < ranks.size() && ranks[r].batch(at, size, batch); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    const std::int64_t begin = share(batch.size, rank, std::ssize(ranks));
    const std::int64_t length = share(batch.size, rank + 1, std::ssize(ranks)) - begin;
    EXPECT_LE(std::abs(length * std::ssize(ranks) - batch.size), std::ssize(ranks));
    for (std::int64_t w = 0; w < workers; ++w) {
      ranks[r].slice(batch, begin + share(length, w, workers), begin + share(length, w + 1, workers), spans);
      all.insert(all.end(), spans.begin(), spans.end());
    }
  }
  return all;
}

// The promise of rota, in one process. The batches are those of the naive schedule.
TEST(Schedule, AnyChainOfWorldsSeesEverySampleOnceInTheSameBatches) {
  for_seeds(400, [&](std::uint64_t seed, std::mt19937_64& random) {
    const Order order = random_order(random, seed);
    const std::int64_t samples = order.plan().samples();
    const auto tail = static_cast<Tail>(draw(random, 0, 3));
    const std::int64_t epochs = draw(random, 1, 3);
    const std::int64_t largest = draw(random, 1 + samples / 10, 2 * samples);
    std::vector<Scheduled> ranks;
    std::int64_t workers = 1;
    std::map<std::int64_t, std::set<std::int64_t>> seen;  // of each epoch
    Position at;
    for (GlobalBatch batch;; at = batch.next) {
      if (ranks.empty() || draw(random, 0, 5) == 0) {
        const auto& world = kWorlds[draw(random, 0, std::ssize(kWorlds) - 1)];
        ranks.assign(static_cast<std::size_t>(world.first), Scheduled(order, tail, epochs));
        workers = world.second;
      }
      const std::int64_t size = tail == Tail::drop ? largest : draw(random, 1, largest);
      const auto spans = dealt(ranks, workers, at, size, batch);
      if (spans.empty()) break;
      Numbers ids;
      for (const ShardSpan& span : spans) {
        for (const std::int64_t id : ids_of(order, {span})) {
          ids.push_back(id);
          if (span.kind != SlotKind::sample) continue;
          ASSERT_TRUE(seen[span.epoch].insert(id).second) << "sample " << id << " of epoch " << span.epoch;
        }
      }
      ASSERT_EQ(ids, naive_batch(order, batch)) << "step " << at.step;
      ASSERT_EQ(std::ssize(ids), batch.size);
    }
    if (tail == Tail::drop && largest > samples) return;
    ASSERT_EQ(std::ssize(seen), epochs);
    for (const auto& [epoch, ids] : seen) {
      EXPECT_EQ(std::ssize(ids), tail == Tail::drop ? samples / largest * largest : samples)
          << "epoch " << epoch;
    }
  });
}

TEST(Schedule, AnyPlaceIsReachedWithoutTheStepsBefore) {
  for_seeds(150, [&](std::uint64_t seed, std::mt19937_64& random) {
    const Order order = random_order(random, seed);
    Scheduled wanderer(order, Tail::carry, 2);
    std::vector<GlobalBatch> batches;
    GlobalBatch batch;
    for (Position at; wanderer.batch(at, 7, batch); at = batch.next) batches.push_back(batch);
    std::vector<ShardSpan> spans;
    std::vector<ShardSpan> jumped;
    for (int jump = 0; jump < 20; ++jump) {
      const auto& there = batches[static_cast<std::size_t>(draw(random, 0, std::ssize(batches) - 1))];
      wanderer.slice(there, 0, there.size, jumped);
      Schedule(order).slice(there, 0, there.size, spans);
      ASSERT_EQ(spans, jumped);
    }
  });
}

TEST(Schedule, CursorsCountTheTurnsOfEveryShardAndAddUpToTheConsumed) {
  for_seeds(200, [&](std::uint64_t seed, std::mt19937_64& random) {
    const Order order = random_order(random, seed);
    Schedule schedule(order);
    const auto turns = naive::turns(order, 1);
    const std::int64_t consumed = draw(random, 0, order.plan().samples());
    Numbers expected(static_cast<std::size_t>(order.plan().shards()));
    for (std::int64_t t = 0; t < consumed; ++t)
      ++expected[static_cast<std::size_t>(turns[static_cast<std::size_t>(t)].shard)];
    const std::int64_t first = draw(random, 0, order.plan().shards() - 1);
    Numbers cursors(static_cast<std::size_t>(2 * (order.plan().shards() - first)));
    schedule.cursors({.epoch = 1, .consumed = consumed, .step = 0}, first, cursors);
    for (std::size_t i = 0; i < cursors.size() / 2; ++i) {
      ASSERT_EQ(cursors[2 * i], 1);
      ASSERT_EQ(cursors[2 * i + 1], expected[static_cast<std::size_t>(first) + i]);
    }
  });
}

TEST(Schedule, TellsTheTurnsOfManySamplesAsOfEach) {
  for_seeds(200, [&](std::uint64_t seed, std::mt19937_64& random) {
    Schedule schedule(random_order(random, seed));
    std::vector<SampleId> ids;
    Numbers each;
    for (std::int64_t id = 0; id < schedule.order().plan().samples(); ++id) {
      if (draw(random, 0, 2) == 0) continue;
      ids.push_back({id});
      each.push_back(schedule.turn(1, {id}).consumed);
    }
    std::ranges::shuffle(ids, random);
    Numbers together;
    for (const Turn& turn : schedule.turns(1, ids)) {
      ASSERT_EQ(turn.epoch, 1);
      together.push_back(turn.consumed);
    }
    std::ranges::sort(each);
    std::ranges::sort(together);
    ASSERT_EQ(together, each);
  });
}

struct TailCase {
  Tail tail;
  std::int64_t epochs;
  Numbers sizes;  // of epochs of 10 samples in batches of 4
  std::int64_t real;
};

TEST(Steps, EndAnEpochAsTheTailSays) {
  const TailCase cases[] = {{Tail::partial, 2, {4, 4, 2, 4, 4, 2}, 20},
                            {Tail::carry, 2, {4, 4, 4, 4, 4}, 20},
                            {Tail::carry, 1, {4, 4, 2}, 10},
                            {Tail::drop, 2, {4, 4, 4, 4}, 16},
                            {Tail::pad, 2, {4, 4, 4, 4, 4, 4}, 20}};
  for (const TailCase& c : cases) {
    SCOPED_TRACE(to_string(c.tail));
    const Steps schedule(10, c.tail, c.epochs);
    GlobalBatch batch;
    Numbers sizes;
    std::int64_t real = 0;
    Position at;
    for (; schedule.batch(at, 4, batch); at = batch.next) {
      sizes.push_back(batch.size);
      real += batch.real;
    }
    EXPECT_EQ(sizes, c.sizes);
    EXPECT_EQ(real, c.real);
    EXPECT_EQ(at, (Position{.epoch = c.epochs, .consumed = 0, .step = std::ssize(c.sizes)}));
  }
}

TEST(Steps, AreNoneWhereThereIsNothingToTake) {
  const auto has_batch = [](std::int64_t samples, Tail tail, std::int64_t epochs) {
    GlobalBatch batch;
    return Steps(samples, tail, epochs).batch({}, 4, batch);
  };
  EXPECT_FALSE(has_batch(0, Tail::pad, 3));
  EXPECT_FALSE(has_batch(3, Tail::drop, 3));
  EXPECT_FALSE(has_batch(3, Tail::partial, 0));
}

TEST(Steps, HaveNoTurnWhereThereAreNoSamples) {
  for (const Tail tail : {Tail::partial, Tail::carry, Tail::drop, Tail::pad}) {
    EXPECT_EQ(Steps(0, tail, 1).find({}, 4, {}), std::nullopt);
  }
}

TEST(Schedule, OneShardWithoutShuffleIsPlainFileOrder) {
  Scheduled schedule(Order(ShardPlan::equal(100, 1), Shuffle::none, 0), Tail::partial, 1);
  GlobalBatch batch;
  std::vector<ShardSpan> spans;
  ASSERT_TRUE(schedule.batch({.epoch = 0, .consumed = 40, .step = 0}, 10, batch));
  schedule.slice(batch, 2, 5, spans);
  EXPECT_EQ(spans, (std::vector<ShardSpan>{{.epoch = 0, .shard = {0}, .position = 42, .count = 3}}));
}

TEST(Schedule, HoldsAtMost24BytesAShard) {
  constexpr std::int64_t kShards = 100'000;
  Numbers lengths(kShards);
  for (std::int64_t s = 0; s < kShards; ++s) lengths[static_cast<std::size_t>(s)] = 1 + s * 7919 % 20'000;
  for (const std::int64_t interleave : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}}) {
    for (const bool is_ragged : {true, false}) {
      GlobalBatch batch;
      std::vector<ShardSpan> spans(32);
      watch_held_memory();
      const auto plan = is_ragged ? ShardPlan::ragged(lengths, interleave)
                                  : ShardPlan::equal(1'000'000, kShards, interleave);
      Scheduled schedule(Order(plan, Shuffle::within, 3), Tail::partial, 1);
      // In one step every shard ends: the worst there is.
      ASSERT_TRUE(schedule.batch({}, plan.samples(), batch));
      schedule.slice(batch, 0, 32, spans);
      EXPECT_LE(held_memory(), 24 * kShards + 4096);
    }
  }
}

}  // namespace rota::test::schedule_test
