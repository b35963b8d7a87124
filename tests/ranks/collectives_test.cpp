#include <climits>

#include "all_of_ranks.hpp"
#include "core/wait.hpp"
#include "moved_from.hpp"
#include "ranks/collectives.hpp"
#include "ranks/deferred_reduction.hpp"
#include "ranks/nodes.hpp"
#include "unprivileged.hpp"

namespace rota::test::collectives_test {

using namespace ranks;  // NOLINT(google-build-using-namespace)

TEST(Agree, ThrowsTheLowestFailingRanksErrorOnAllRanks) {
  const int failing = everyone().size() / 2;
  const auto break_some = [&] {
    if (everyone().rank() >= failing) throw Error(corrupt, fmt::format("broken on {}", everyone().rank()));
  };
  const auto error = error_of([&] { everyone().together("test", break_some); });
  ASSERT_THAT(error, is_error(corrupt, {}));
  const std::string head = everyone().size() == 1 ? "" : fmt::format("rank {}: ", failing);
  EXPECT_EQ(error->what(), head + fmt::format("broken on {}", failing));
}

TEST(Interrupt, EndsAWaitForOtherRanksWhichIsNotTakenUpAgain) {
  struct Interrupted : Stopped {};
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  DeferredReduction sum(everyone(), Reduction::sum, std::chrono::minutes(10), "test");
  sum.set_quiet(false);
  if (everyone().rank() > 0) return;
  sum.begin({1});
  {
    const WaitScope scope{Wait([] { throw Interrupted(); })};
    EXPECT_THROW((void)sum.end(), Interrupted);
  }
  EXPECT_ERROR(sum.end(), timeout, {"test: it ended early on this rank"});
}

TEST(Agree, PassesOnWhatIsNoError) {
  if (everyone().size() == 1) {
    EXPECT_THROW(everyone().together("test", [] { throw std::logic_error("odd"); }), std::logic_error);
    return;
  }
  const auto error = error_of([&] {
    everyone().together("test", [&] {
      if (everyone().rank() == 0) throw std::logic_error("odd");
    });
  });
  ASSERT_THAT(error, is_error(callback, {}));
  EXPECT_STREQ(error->what(), "rank 0: odd");
}

TEST(Collectives, BroadcastSumMinMaxAndGather) {
  const std::int64_t rank = everyone().rank();
  const std::int64_t size = everyone().size();
  const std::string long_text(100'000, 'x');
  EXPECT_EQ(broadcast(everyone(), rank == 0 ? long_text : "mine"), long_text);
  Numbers sums{rank, 1};
  everyone().sum(sums);
  EXPECT_EQ(sums, (Numbers{size * (size - 1) / 2, size}));
  std::vector<float> halves{0.5F};
  everyone().sum(halves);
  EXPECT_EQ(halves.front(), 0.5F * static_cast<float>(size));
  Numbers lowest{rank};
  everyone().min(lowest);
  EXPECT_THAT(lowest, Each(0));
  Numbers highest{rank};
  everyone().max(highest);
  EXPECT_THAT(highest, Each(size - 1));
  EXPECT_EQ(all_gather(everyone(), rank), numbers_from(0, size));
}

// What may begin a public call, and what errors call it.
std::vector<std::pair<std::string, std::function<void()>>> first_calls(const Communicator& comm) {
  using Values = Numbers;
  return {{"work", [&] { comm.together("work", [] {}); }},
          {"broken", [&] { comm.together("broken", [] { throw Error(io, "broken"); }); }},
          {"add up what",
           [&] {
             Values values(9);
             comm.sum(values);
           }},
          {"add up fractions",
           [&] {
             std::vector<double> values(9);
             comm.sum(values);
           }},
          {"find the least",
           [&] {
             Values values(2);
             comm.min(values);
           }},
          {"find the most",
           [&] {
             Values values(2);
             comm.max(values);
           }},
          {"compare", [&] { require_same(comm, "compare", "x"); }},
          {"share out data", [&] { (void)comm.data_parallel(0); }},
          {"duplicate a communicator", [&] { (void)comm.duplicate(); }},
          {"hand over", [&] { (void)exchange(comm, "hand over", [](Messages&) {}); }}};
}

TEST(Calls, ThatDifferAreNamedOnAllRanksWhichGoOn) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const auto calls = first_calls(everyone());
  const int last = everyone().size() - 1;
  for (std::size_t i = 0; i + 1 < calls.size(); ++i) {
    EXPECT_THAT(error_of(calls[i + (is_last() ? 1 : 0)].second),
                is_error(mismatch, {"ranks are in different calls: rank", calls[i].first,
                                    fmt::format("rank {} in \"{}", last, calls[i + 1].first)}));
  }
  Numbers ones(is_last() ? 7 : 1, 1);
  EXPECT_ERROR(everyone().sum(ones), mismatch,
               {"of 1 values", fmt::format("rank {} in \"add up what all ranks have\" of 7", last)});
  ones.resize(1);
  everyone().sum(ones);
  EXPECT_EQ(ones.front(), everyone().size());
}

TEST(Communicator, IsAProcessAloneUnlessItSaysOtherwise) {
  const Communicator alone;
  EXPECT_EQ(alone.world(), World{});
  EXPECT_EQ(broadcast(alone, std::string("x")), "x");
  EXPECT_EQ(all_gather(alone, 3), Numbers{3});
}

// NOLINTBEGIN(bugprone-use-after-move,hicpp-invalid-access-moved): what is tested

std::vector<std::function<void()>> calls_over(const Communicator& comm) {
  return {[&] { (void)comm.duplicate(); },
          [&] { comm.together("test", [] { ADD_FAILURE() << "it began the work"; }); },
          [&] { agree(comm, "test", nullptr); },
          [&] { (void)broadcast(comm, std::string("x")); },
          [&] { (void)all_gather(comm, 3); },
          [&] { (void)is_same(comm, "test", "x"); },
          [&] { require_same(comm, "test", "x"); },
          [&] {
            Numbers values{3};
            comm.sum(values);
          },
          [&] { (void)comm.data_parallel(0); },
          [&] { StopSignal stop(comm); },
          [&] { Nodes nodes(comm.duplicate()); },
          [&] { Catalog catalog(comm, "/"); },
          [&] { CheckpointDirectory directory(comm, "/nowhere"); },
          [&] { Loader loader(comm, nullptr); },
          [&] { StreamLoader loader(comm, nullptr); }};
}

TEST(Communicator, ThatWasMovedFromIsRefusedAndIsNoWorldOfOne) {
  Communicator from = everyone().duplicate();
  const Communicator to = std::move(from);
  EXPECT_EQ(from.size(), 0);
  EXPECT_THROW(from.world().validate(), Error);
  test::expect_refused("a communicator", calls_over(from));
  Communicator alone;
  const Communicator still_alone = std::move(alone);
  test::expect_refused("a communicator", calls_over(alone));
  EXPECT_EQ(still_alone.duplicate().world(), World{});
  if (are_threads()) GTEST_SKIP() << "a process has one StopSignal";
  StopSignal stop(to);  // none was left behind
  EXPECT_FALSE(stop.requested());
}

TEST(Communicator, ThatWasAssignedElsewhereIsRefusedAndMayBeFilledAgain) {
  const World world = everyone().world();
  Communicator from = everyone().duplicate();
  Communicator to;
  to = std::move(from);
  EXPECT_EQ(to.world(), world);
  EXPECT_ERROR(all_gather(from, 3), invalid_argument, {});
  from = std::move(to);
  EXPECT_EQ(std::ssize(all_gather(from, 3)), world.size);
  Communicator& same = from;
  from = std::move(same);
  EXPECT_EQ(std::ssize(all_gather(from, 3)), world.size);
}

// NOLINTEND(bugprone-use-after-move,hicpp-invalid-access-moved)

TEST(Communicator, OfTheParentIsRefusedInAForkedChild) {
#ifdef __SANITIZE_ADDRESS__
  if (are_threads()) GTEST_SKIP() << "another thread may hold the sanitizer's lock at the fork";
#endif
  std::optional<Communicator> comm = everyone().duplicate();
  const std::string error = error_as_nobody([&] { (void)all_gather(*comm, 3); });
  EXPECT_THAT(error, StartsWith("unsupported: use a communicator"));
  EXPECT_EQ(error_as_nobody([&] { comm.reset(); }), "");
  EXPECT_EQ(error_as_nobody([&] { (void)all_gather(Communicator(), 3); }), "");
  EXPECT_EQ(std::ssize(all_gather(*comm, 3)), comm->size());
}

TEST(Communicator, HasNoNegativeDeadline) {
  EXPECT_ERROR(everyone().duplicate(std::chrono::milliseconds(-5)), invalid_argument,
               {"deadline is -0.005 s"});
}

TEST(StopSignal, OnOneRankStopsAllAtTheSameStep) {
  if (are_threads()) GTEST_SKIP() << "signals are of the process";
  for (const int signal : {SIGTERM, SIGUSR1}) {
    StopSignal stop(everyone());
    std::int64_t step = 0;
    for (; step < 100 && !stop.requested(); ++step) {
      if (step == 7 && everyone().rank() == everyone().size() - 1) raise(signal);
    }
    EXPECT_EQ(step, 8);
    EXPECT_TRUE(stop.requested());
#ifndef __SANITIZE_THREAD__  // which hands signals over later, and not in a handler
    EXPECT_EXIT(raise(signal), KilledBySignal(signal), "");  // a child is not stopped with its parent
#endif
    EXPECT_THROW(StopSignal second(everyone()), Error);
  }
}

TEST(DataParallel, NumbersTheReplicasOfAPlaceInTheOrderOfTheirRanks) {
  const int data = everyone().size() % 2 == 0 ? everyone().size() / 2 : 1;
  const int inner = everyone().size() / data;
  EXPECT_EQ(everyone().data_parallel(everyone().rank() / inner).world(),
            (World{.rank = everyone().rank() / inner, .size = data, .replica = everyone().rank() % inner}));
  EXPECT_EQ(everyone().data_parallel(everyone().rank() % data).world(),
            (World{.rank = everyone().rank() % data, .size = data, .replica = everyone().rank() / data}));
  EXPECT_EQ(everyone().data_parallel(everyone().rank()).world(), everyone().world());
  const Communicator one_place = everyone().data_parallel(0);
  EXPECT_EQ(one_place.rank(), everyone().rank());
  EXPECT_EQ(one_place.size(), everyone().size());
  EXPECT_EQ(one_place.duplicate().world(), (World{.rank = 0, .size = 1, .replica = everyone().rank()}));
}

TEST(DataParallel, IsRefusedWhereRanksAreNotSharedEqually) {
  const auto expect_refused = [&](int rank, const std::string& why) {
    EXPECT_ERROR(everyone().data_parallel(rank), invalid_argument, {why});
  };
  expect_refused(everyone().rank() + 1, "none of them has data-parallel rank 0, and 1 have rank 1");
  expect_refused(-everyone().rank() - 1, fmt::format("data-parallel rank {} is below 0", -everyone().size()));
  const bool is_last = everyone().rank() == everyone().size() - 1;
  expect_refused(is_last ? INT_MIN : everyone().rank(), "data-parallel rank -2147483648 is below 0");
  expect_refused(is_last ? INT_MAX : everyone().rank(),
                 fmt::format("none of them has data-parallel rank {}, and 1 have rank 2147483647",
                             everyone().size() - 1));
  if (everyone().size() == 1) return;
  expect_refused(2 * everyone().rank(), "none of them has data-parallel rank 1, and 1 have rank 2");
  if (everyone().size() > 2) {
    expect_refused(
        std::min(everyone().rank(), 1),
        fmt::format("1 of them have data-parallel rank 0, and {} have rank 1", everyone().size() - 1));
  }
}

}  // namespace rota::test::collectives_test
