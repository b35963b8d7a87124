// A dispatch that is settled by hand: what is open is kept, comes again, and is bounded. every_world_test.cpp
// has worlds that take turns.

#include "stream/ranks.hpp"

namespace rota::test::dispatch_settle_test {

constexpr std::int64_t kShards = 5;

class DispatchSettle : public Test {
 protected:
  static StreamLoader make(StreamLoaderOptions options) {
    options.settle = Settle::by_hand;
    return {everyone(), dispatch_of(numbered({40}), kShards), options};
  }
  /// **Collective.** The numbers of the next batch, which comes again or not, of all ranks.
  static Numbers next(StreamLoader& loader, bool is_again) {
    const auto batch = loader.next();
    EXPECT_TRUE(batch && batch->is_again() == is_again);
    Numbers ids;
    for (const SampleId id : batch->ids()) ids.push_back(id.value);
    Numbers items = items_of(*batch, kShards);
    EXPECT_EQ(items, ids);
    items = all_of_ranks(everyone(), items);
    std::ranges::sort(items);
    return items;
  }
  static constexpr std::array<std::int64_t, 1> kEpoch{0};
};

TEST_F(DispatchSettle, WhatWasGivenUpComesNextAfterAMergeAndIsNoStep) {
  StreamLoader loader = make({.global_batch_size = 6});
  static_cast<void>(next(loader, false));
  loader.again();
  EXPECT_EQ(next(loader, false), numbers_from(6, 12));
  loader.merge();
  EXPECT_EQ(next(loader, true), numbers_from(0, 6));
  EXPECT_EQ(loader.position().step, 2);
  loader.merge();
  EXPECT_EQ(next(loader, false), numbers_from(12, 18));
}

TEST_F(DispatchSettle, WhatIsOpenAtTheEndComesAfterARestore) {
  StreamLoader loader = make({.global_batch_size = 40});
  const auto batch = loader.next();
  EXPECT_FALSE(loader.next());
  for (const SampleId id : batch->ids()) {
    const std::array<SampleId, 1> one{id};
    if (id.value % 3 == 0) loader.settle(one, kEpoch);
    if (id.value % 3 == 1) loader.drop(one, kEpoch, "stale");
  }
  StreamLoader later(everyone(), dispatch_of(numbered({40}), kShards), {.global_batch_size = 20});
  restore(later, state(loader));
  const std::string before = state(later);
  static_cast<void>(later.next());
  restore(later, before);  // of what comes again, too
  EXPECT_EQ(std::ssize(all_of_ranks(everyone(), items_of(*later.next(), kShards))), 13);
  EXPECT_FALSE(later.next());
  Numbers dropped{loader.dropped().counts["stale"]};
  everyone().sum(dropped);
  EXPECT_EQ(dropped.front(), 13);
  EXPECT_EQ(loader.stats().dropped, loader.dropped().counts["stale"]);
}

// An item has 24 to 28 bytes, and each rank gets one.
TEST_F(DispatchSettle, NextWaitsWhereWhatIsOpenHasTooManyBytes) {
  StreamLoader loader =
      make({.global_batch_size = everyone().size(), .deadline = std::chrono::seconds(3), .open_bytes = 90});
  for (int step = 0; step < 4; ++step) static_cast<void>(next(loader, false));
  EXPECT_ERROR(static_cast<void>(loader.next()), timeout, {"open_bytes is 90", "none was ever settled"});
  loader.settle({}, {});
  EXPECT_ERROR(static_cast<void>(loader.next()), timeout,
               {"and open_bytes is 90; the oldest: sample", "settle, drop or give up"});
  loader.again();  // with none out, nobody could make room
  EXPECT_EQ(next(loader, false), numbers_from(4 * everyone().size(), 5 * everyone().size()));
  loader.merge();
  EXPECT_EQ(next(loader, true), numbers_from(0, everyone().size()));
}

TEST_F(DispatchSettle, ASampleIsSettledOnceByWhoeverHasIt) {
  StreamLoader loader = make({.global_batch_size = 2 * everyone().size()});
  const auto batch = loader.next();
  loader.settle(batch->ids().first(1), batch->epochs().first(1));
  EXPECT_THAT(loader.try_settle(batch->ids(), batch->epochs()), ElementsAre(false, true));
  EXPECT_ERROR(loader.settle(*batch), invalid_argument, {"it is not out"});
  EXPECT_EQ(loader.stats().open, 0);
  loader.merge();
  EXPECT_EQ(std::ssize(next(loader, false)), 2 * everyone().size());
}

TEST_F(DispatchSettle, IsRefusedOfOtherStreamsAndWhereRanksDiffer) {
  const StreamLoaderOptions by_hand{.settle = Settle::by_hand};
  EXPECT_ERROR(StreamLoader(everyone(), numbered({3, 3}), by_hand), invalid_argument,
               {"settle is by_hand; it must be at_delivery of a stream that all ranks read", "Dispatch"});
  EXPECT_ERROR(make({.open_bytes = 0}), invalid_argument, {"open_bytes is 0"});
  StreamLoader other(everyone(), dispatch_of(numbered({9})), {.global_batch_size = 4});
  const auto batch = other.next();
  EXPECT_THAT(batch->ids(), IsEmpty());
  EXPECT_ERROR(other.settle(*batch), invalid_argument, {"choose settle = by_hand"});
  EXPECT_ERROR(other.merge(), invalid_argument, {"choose settle = by_hand"});
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const StreamLoaderOptions one{.settle = is_root() ? Settle::by_hand : Settle::at_delivery};
  EXPECT_ERROR(StreamLoader(everyone(), dispatch_of(numbered({3})), one), mismatch, {"settled by hand"});
}

}  // namespace rota::test::dispatch_settle_test
