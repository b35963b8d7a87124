// The promise of rota, in one process: whatever worlds take turns, every sample of an epoch is seen exactly
// once, and the global batches are those of a run that never stopped.

#include "order/schedule.hpp"
#include "test.hpp"

namespace rota::test::rescale_test {

std::int64_t draw(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

struct Step {
  Position start;
  std::vector<std::int64_t> ids;
  std::vector<SlotKind> kinds;
  friend bool operator==(const Step&, const Step&) = default;
};

/// One leg of a chain: a world of ranks x workers, each of which works out its own slice with a schedule of
/// its own.
class Leg {
 public:
  Leg(const Order& order, Tail tail, std::int64_t epochs, std::int64_t ranks, std::int64_t workers)
      : order_(order), ranks_(ranks), workers_(std::max<std::int64_t>(workers, 1)) {
    for (std::int64_t r = 0; r < ranks_; ++r) schedules_.emplace_back(order, tail, epochs);
  }

  /// The global batch that all ranks and workers together deliver from `at`.
  bool step(Position& at, std::int64_t size, Step& out) {
    out = {};
    GlobalBatch batch;
    for (std::int64_t r = 0; r < ranks_; ++r) {
      Schedule& schedule = schedules_[static_cast<std::size_t>(r)];
      if (!schedule.batch(at, size, batch)) return false;
      const std::int64_t begin = share(batch.size, r, ranks_);
      const std::int64_t length = share(batch.size, r + 1, ranks_) - begin;
      EXPECT_LE(std::abs(length * ranks_ - batch.size), ranks_);
      for (std::int64_t w = 0; w < workers_; ++w) {
        schedule.slice(batch, begin + share(length, w, workers_), begin + share(length, w + 1, workers_),
                       spans_);
        append(out);
      }
    }
    out.start = batch.start;
    at = batch.next;
    return true;
  }

 private:
  void append(Step& out) {
    for (const ShardSpan& span : spans_) {
      std::vector<SampleId> ids(static_cast<std::size_t>(span.count));
      order_.epoch(span.epoch).samples(std::span(&span, 1), ids.data());
      for (const SampleId id : ids) {
        out.ids.push_back(id.value);
        out.kinds.push_back(span.kind);
      }
    }
  }

  const Order& order_;
  std::int64_t ranks_;
  std::int64_t workers_;
  std::vector<Schedule> schedules_;
  std::vector<ShardSpan> spans_;
};

struct Case {
  ShardPlan plan;
  Shuffle shuffle;
  Tail tail;
  std::int64_t epochs;
  std::vector<std::int64_t> batch_sizes;  // in turn
};

Case random_case(std::mt19937_64& random) {
  const std::int64_t shards = draw(random, 1, 30);
  const std::int64_t interleave = draw(random, 0, 2) == 0 ? draw(random, 1, shards) : 0;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(shards));
  for (auto& n : lengths) n = draw(random, 0, 25);
  lengths[static_cast<std::size_t>(draw(random, 0, shards - 1))] = draw(random, 1, 60);
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = draw(random, 1, 5); i > 0; --i) sizes.push_back(draw(random, 1, 40));
  return {draw(random, 0, 1) == 0 ? ShardPlan::equal(draw(random, 1, 400), shards, interleave)
                                  : ShardPlan::ragged(lengths, interleave),
          static_cast<Shuffle>(draw(random, 0, 3)), static_cast<Tail>(draw(random, 0, 3)), draw(random, 1, 3),
          sizes};
}

/// Steps of a run that changes its world after a random number of steps, through `worlds` again and again.
std::vector<Step> run(const Case& c, const Order& order,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& worlds,
                      std::mt19937_64& random) {
  std::vector<Step> steps;
  Position at;
  for (std::size_t leg = 0;; ++leg) {
    const auto [ranks, workers] = worlds[leg % worlds.size()];
    Leg world(order, c.tail, c.epochs, ranks, workers);
    for (std::int64_t stop = draw(random, 1, 12); stop > 0; --stop) {
      Step step;
      const auto size = c.batch_sizes[static_cast<std::size_t>(at.step / 3) % c.batch_sizes.size()];
      if (!world.step(at, size, step)) return steps;
      steps.push_back(std::move(step));
    }
  }
}

std::map<std::int64_t, std::map<std::int64_t, int>> seen_per_epoch(const Case& c,
                                                                   const std::vector<Step>& steps) {
  std::map<std::int64_t, std::map<std::int64_t, int>> seen;
  for (const Step& step : steps) {
    std::int64_t epoch = step.start.epoch;
    std::int64_t consumed = step.start.consumed;
    for (std::size_t i = 0; i < step.ids.size(); ++i) {
      if (step.kinds[i] != SlotKind::sample) continue;
      ++seen[epoch][step.ids[i]];
      if (++consumed == c.plan.samples()) {
        ++epoch;
        consumed = 0;
      }
    }
  }
  return seen;
}

TEST(Rescale, AnyChainOfWorldsSeesEverySampleOnceInTheSameBatches) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> chain{{8, 2}, {7, 0},  {13, 3},
                                                                 {1, 5}, {32, 1}, {5, 4}};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Case c = random_case(random);
    const Order order(c.plan, c.shuffle, seed, {.samples = 8, .blocks = 4});
    const auto steps = run(c, order, chain, random);
    EXPECT_EQ(steps, run(c, order, {{1, 0}}, random));
    if (c.tail == Tail::drop) continue;
    const auto seen = seen_per_epoch(c, steps);
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), c.epochs);
    for (const auto& [epoch, ids] : seen) {
      ASSERT_EQ(static_cast<std::int64_t>(ids.size()), c.plan.samples()) << "epoch " << epoch;
      for (const auto& [id, times] : ids) ASSERT_EQ(times, 1) << "sample " << id << " of epoch " << epoch;
    }
  }
}

TEST(Rescale, DropLeavesOutLessThanABatchAndRepeatsNothing) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Case c = random_case(random);
    c.tail = Tail::drop;
    c.batch_sizes.resize(1);
    if (c.batch_sizes[0] > c.plan.samples()) continue;
    const Order order(c.plan, c.shuffle, seed);
    const auto seen = seen_per_epoch(c, run(c, order, {{3, 2}, {5, 1}}, random));
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), c.epochs);
    for (const auto& [epoch, ids] : seen) {
      EXPECT_GT(static_cast<std::int64_t>(ids.size()), c.plan.samples() - c.batch_sizes[0]);
      for (const auto& [id, times] : ids) ASSERT_EQ(times, 1) << "sample " << id;
    }
  }
}

TEST(Rescale, MoreWorkersThanShardsAndMoreRanksThanSamplesInABatch) {
  const Order order(ShardPlan::equal(50, 2), Shuffle::within, 9);
  Leg world(order, Tail::partial, 1, 64, 8);
  Position at;
  Step step;
  std::vector<std::int64_t> ids;
  while (world.step(at, 7, step)) ids.insert(ids.end(), step.ids.begin(), step.ids.end());
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(ids.size(), 50U);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], static_cast<std::int64_t>(i));
}

}  // namespace rota::test::rescale_test
