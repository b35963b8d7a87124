#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"
#include "order/schedule.hpp"
#include "order/weighted_turns.hpp"

namespace rota::test::order_values_test {

TEST(OrderValues, PlacesThatNoRunHasAreRefused) {
  Loader loader(told(10), {.global_batch_size = 4, .epochs = kEndless, .workers = 0});
  const Steps steps(10, Tail::carry, kEndless);
  GlobalBatch batch;
  for (const Position& at : {Position{.epoch = -1}, Position{.epoch = kLeast}, Position{.epoch = kTwo62 + 1},
                             Position{.epoch = kMost}, Position{.consumed = -1}, Position{.consumed = 11},
                             Position{.consumed = kMost}, Position{.step = -1}, Position{.step = kLeast},
                             Position{.step = kTwo62 + 1}, Position{.step = kMost}}) {
    const auto place = fmt::format("epoch {}, sample {}, step {}", at.epoch, at.consumed, at.step);
    SCOPED_TRACE(place);
    refused(kRange, {place, "10 samples", "2^62"}, [&] { loader.seek(at); });
    refused(kRange, {place, "10 samples"}, [&] { steps.batch(at, 4, batch); });
  }
  EXPECT_EQ(loader.position(), Position{});
}

TEST(OrderValues, PlacesOfAMixtureThatNoRunHasAreRefused) {
  Loader loader(Mixture{.datasets = {{.source = told(10)}}, .end = MixtureEnd::steps, .steps = kMost},
                {.workers = 0});
  for (const Position& at :
       {Position{.epoch = 1}, Position{.epoch = kMost}, Position{.consumed = -1},
        Position{.consumed = kTwo62 + 1}, Position{.consumed = kMost}, Position{.step = kMost}}) {
    refused(kRange, {"of a mixture"}, [&] { loader.seek(at); });
    refused(kRange, {"of a mixture"}, [&] { loader.seek(at, *loader.mixture()); });
  }
  const MixtureState overflowing{.weights = {1}, .changed_at = kMost, .counts = {kMost}};
  refused(kRange, {"of a mixture"}, [&] { loader.seek({.consumed = 5}, overflowing); });
}

TEST(OrderValues, TheFarthestPlaceIsWhereARunIsOver) {
  for (const Tail tail : {Tail::partial, Tail::carry, Tail::drop, Tail::pad}) {
    Loader loader(told(10), {.global_batch_size = 4, .tail = tail, .epochs = kEndless, .workers = 0});
    loader.seek({.epoch = kTwo62 - 1, .consumed = 3, .step = kTwo62 - 1});
    EXPECT_EQ((*loader.next()).size(), 4);
    EXPECT_EQ(loader.position().step, kTwo62);
    EXPECT_FALSE(loader.next());
  }
  Loader mix_plan(Mixture{.datasets = {{.source = told(kTwo62)}}, .end = MixtureEnd::steps, .steps = kMost},
                  {.global_batch_size = 4, .workers = 0});
  mix_plan.seek({.consumed = kTwo62 - 4, .step = kTwo62 - 1});
  EXPECT_EQ((*mix_plan.next()).size(), 4);
  EXPECT_FALSE(mix_plan.next());
}

TEST(OrderValues, BatchSizesAreBounded) {
  Loader loader(told(10), {.workers = 0});
  for (const std::int64_t size :
       {kLeast, std::int64_t{-1}, std::int64_t{0}, kMaxBatchSize + 1, kTwo62, kMost}) {
    refused({"global_batch_size is " + std::to_string(size), "1 to 2^31 - 1"},
            [&] { loader.set_global_batch_size(size); });
  }
  EXPECT_EQ(loader.options().global_batch_size, 32);
}

TEST(OrderValues, PlansAreRefusedByName) {
  refused({"0 to 2^62"}, [] { ShardPlan::equal(kTwo62 + 1, 1); });
  refused({"1 to 2^24"}, [] { ShardPlan::equal(1, kMaxShards + 1); });
  refused({"0 to 2^62"}, [] { ShardPlan::equal(-1, 1); });
  refused({"1 to 2^24"}, [] { ShardPlan::equal(1, 0); });
  refused({"interleave"}, [] { ShardPlan::equal(1, 1, kLeast); });
  refused({"a shard's length"}, [] { ShardPlan::ragged(Numbers{3, -1}); });
  refused({"a shard's length", "2^62"}, [] { ShardPlan::ragged(std::vector{kTwo62, kTwo62}); });
  refused({"the number of shards is 0"}, [] { ShardPlan::ragged({}); });
}

TEST(OrderValues, EnumeratorsThatThereAreNotAreUnknown) {
  EXPECT_EQ(to_string(Shuffle(99)), "unknown");
  EXPECT_EQ(to_string(Tail(-1)), "unknown");
  EXPECT_EQ(to_string(Split(4)), "unknown");
  EXPECT_EQ(to_string(DType(255)), "unknown");
  EXPECT_EQ(size_of(DType(13)), 0U);
}

TEST(OrderValues, ShardsThatThereAreNotHaveNoCursors) {
  const Loader loader(told(10), {.shards = 4, .workers = 0});
  const Loader mix_plan(Mixture{.datasets = {{.source = told(10)}}}, {.shards = 4, .workers = 0});
  Numbers cursors(4);
  for (const std::int64_t first :
       {kLeast, std::int64_t{-1}, std::int64_t{3}, std::int64_t{5}, kMost - 1, kMost}) {
    for (const Loader* one : {&loader, &mix_plan}) {
      refused(kRange, {"2 shards from " + std::to_string(first) + " on", "there are 4"},
              [&] { one->cursors(first, cursors); });
    }
  }
  loader.cursors(4, {});
}

using Weights = std::vector<double>;
using Quantised = Numbers;

TEST(OrderValues, WeightsFarApartAreQuantisedAllTheSame) {
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(quantise(Weights{1e-300, 1e300}), (Quantised{1, 65'535}));
  EXPECT_EQ(quantise(Weights{1e300, 0, 1e-300}), (Quantised{65'535, 0, 1}));
  EXPECT_EQ(quantise(Weights{kTiny, 1}), (Quantised{1, 65'535}));
  EXPECT_EQ(quantise(Weights{kTiny, 1e308}), (Quantised{1, 65'535}));
  EXPECT_EQ(quantise(Weights{kTiny, kTiny}), (Quantised{1, 1}));
  EXPECT_EQ(quantise(Weights{kTiny, 3 * kTiny}), (Quantised{1, 3}));
  EXPECT_EQ(quantise(Weights{0, kTiny}), (Quantised{0, 1}));
  EXPECT_EQ(quantise(Weights{1e-10, 1}), (Quantised{1, 65'535}));
  EXPECT_THAT(quantise(Weights{7}), SizeIs(1));
}

TEST(OrderValues, WeightsThatAreNoneAreRefused) {
  refused({"set 0 weights", "1 to 4096"}, [] { quantise({}); });
  refused({"set 4097 weights", "1 to 4096"}, [] { quantise(Weights(4097, 1.0)); });
  refused({"above 0"}, [] { quantise(Weights{0, 0}); });
  refused({"1, -1:", "0 or more"}, [] { quantise(Weights{1, -1}); });
  refused({"0 or more"}, [] { quantise(Weights{1, -1e-300}); });
  refused({"to nan:", "0 or more"}, [] { quantise(Weights{NAN}); });
  refused({"1, inf:", "finite"}, [] { quantise(Weights{1, INFINITY}); });
  refused({"0 or more"}, [] { quantise(Weights{1, -INFINITY}); });
  refused({"their sum", "finite"}, [] { quantise(Weights{1e308, 1e308}); });
}

}  // namespace rota::test::order_values_test
