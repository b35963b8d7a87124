// A save in the background, whatever the loop does meanwhile.

#include "messages.hpp"
#include "ranks_fixture.hpp"

namespace rota::test::async_test {

class Async : public RanksCheckpointTest {
 protected:
  // What changes after the call is not saved.
  void save_async(CheckpointDirectory& directory, int step) {
    weights_.set(step);
    directory.save_all_async(step, weights_);
    weights_.set(-1);
  }
  void expect_saves(CheckpointDirectory& directory) {
    for (const int step : {1, 2, 3}) {
      save_async(directory, step);
      const auto report = directory.wait();
      ASSERT_TRUE(report);
      EXPECT_EQ(report->info.step, step);
      EXPECT_GT(report->seconds, 0);
      expect_latest(directory, step);
    }
    EXPECT_FALSE(directory.wait());
  }
};

TEST_F(Async, SavesWhatWasThereWhenItWasCalled) {
  auto directory = open();
  expect_saves(directory);
}

TEST_F(Async, ARankThatCanStartNoThreadSavesWhenItWaits) {
  if (are_threads()) GTEST_SKIP() << "the limit is of the process";
  const auto none = rank() == last() ? std::make_unique<NoThreads>() : nullptr;
  if (none) {
    EXPECT_ANY_THROW(std::thread([] {}).join());
  }
  auto directory = open();
  expect_saves(directory);
}

TEST_F(Async, GoesOnWhenTheLoopComesByAndNeedsNoWait) {
  auto directory = open();
  save_async(directory, 1);
  const auto until = std::chrono::steady_clock::now() + 60s;
  int steps = 0;
  while (!directory.poll() && std::chrono::steady_clock::now() < until) {
    ++steps;
    std::this_thread::sleep_for(rank() * 100us);  // ranks come by when they like
  }
  EXPECT_TRUE(steps > 0 || size() == 1);  // which may be done at once
  EXPECT_THAT(names(), ElementsAre("checkpoint-000000000000.h5"));
  EXPECT_TRUE(directory.poll());
  expect_latest(directory, 1);
}

TEST_F(Async, SaysHowLongItTookAndNotHowLongNobodyAsked) {
  auto directory = open();
  const auto start = std::chrono::steady_clock::now();
  save_async(directory, 1);
  while (!directory.poll()) continue;
  const std::chrono::duration<double> most = std::chrono::steady_clock::now() - start;
  std::this_thread::sleep_for(10ms);
  EXPECT_LE(directory.wait()->seconds, most.count());
}

TEST_F(Async, TheNextSaveWaitsForTheOneUnderWay) {
  auto directory = open({.keep_last = 3});
  for (const int step : {1, 2}) save_async(directory, step);
  EXPECT_EQ(save(directory, 3).info.serial, 2);
  EXPECT_THAT(directory.list(), SizeIs(3));
  expect_latest(directory, 3);
}

TEST_F(Async, ARankThatCannotWriteFailsTheNextCallOnAllAndNothingIsLeft) {
  auto directory = open_faulty();
  save(directory, 1);
  const std::array<std::function<void()>, 3> calls{[&] { directory.wait(); }, [&] { save(directory, 3); },
                                                   [&] { (void)directory.latest(); }};
  for (const auto& call : calls) {
    system_.fail("pwrite", rank() == last() ? 0 : -1, EIO);
    save_async(directory, 2);
    EXPECT_ERROR_OF_ALL(call(), io, {"write"});
    EXPECT_THAT(names(), ElementsAre("checkpoint-000000000000.h5"));
  }
  EXPECT_FALSE(directory.wait());
  expect_latest(directory, 1);
}

TEST_F(Async, AStateThatThrowsOnOneRankThrowsOnAllWhenWaitedFor) {
  auto directory = open();
  weights_.is_broken = rank() == last();
  directory.save_all_async(1, weights_);
  EXPECT_ERROR_OF_ALL(directory.wait(), callback, {"the weights are not numbers"});
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Async, ASaveThatIsNeverWaitedForIsFinishedWhereTheDirectoryIsClosed) {
  {
    auto directory = open();
    save_async(directory, 1);
  }
  auto directory = open();
  expect_latest(directory, 1);
  auto other = CheckpointDirectory(comm(), path_ / "other");
  save_async(directory, 2);
  directory = std::move(other);
  EXPECT_FALSE(directory.wait());
  auto again = open();
  expect_latest(again, 2);
}

TEST_F(Async, WhatASaveFailsAtThatIsNeverWaitedForIsTold) {
  if (are_threads()) GTEST_SKIP() << "a process has one MessageSink";
  const SinkMessages told;
  {
    auto directory = open_faulty();
    system_.fail("pwrite", rank() == last() ? 0 : -1, EIO);
    save_async(directory, 2);
  }
  EXPECT_THAT(told.lines,
              ElementsAre(AllOf(HasSubstr("a save in the background failed: "), HasSubstr("write"))));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Async, ASaveIsGivenUpWhereItIsToBeOrAnExceptionIsUnderWay) {
  for (const bool throws : {false, true}) {
    try {
      auto directory = open();
      save(directory, 1);
      save_async(directory, 2);
      if (throws) throw std::runtime_error("the loop failed");
      directory.give_up_save();
      EXPECT_FALSE(directory.wait());
    } catch (const std::runtime_error&) {
      ranks::agree(comm(), "fail together", nullptr);
    }
    auto directory = open();
    save(directory, 3);
    expect_latest(directory, 3);
    EXPECT_THAT(names(), Each(StartsWith("checkpoint-")));
  }
}

TEST_F(Async, ASaveIsFinishedOrGivenUpHoweverFarItIs) {
  for (int round = 0; round < 10; ++round) {
    const bool gives_up = round % 2 == 0;
    {
      auto directory = open();
      save_async(directory, round);
      const auto until = std::chrono::steady_clock::now() + (4 * round + rank() % 3) * 1ms;
      while (std::chrono::steady_clock::now() < until) directory.poll();
      if (gives_up) directory.give_up_save();
    }
    ranks::agree(comm(), "close", nullptr);
    auto directory = open();
    if (!gives_up) expect_latest(directory, round);
  }
  auto directory = open();
  save(directory, 99);
  expect_latest(directory, 99);
  EXPECT_THAT(names(), Each(StartsWith("checkpoint-")));
}

TEST_F(Async, ADirectoryThatIsMovedGoesOnSaving) {
  auto first = open();
  save_async(first, 1);
  CheckpointDirectory second = std::move(first);
  second.poll();
  CheckpointDirectory third(comm(), path_ / "other");
  third = std::move(second);
  ASSERT_TRUE(third.wait());
  expect_latest(third, 1);
}

TEST_F(Async, ARankThatNeverWaitsIsNamed) {
  if (size() != 3) GTEST_SKIP() << "takes a second: with three ranks";
  auto directory = open({.deadline = kDeadline});
  directory.save_all_async(1, weights_);
  const auto expect_timeout = [&] {
    EXPECT_ERROR(directory.wait(), timeout, {fmt::format("rank {} did not arrive", last())});
  };
  wait_without(last(), expect_timeout);
  if (rank() == last()) expect_timeout();
}

TEST_F(Async, ALoopThatTakesLongerThanTheDeadlineIsNotMissed) {
  auto directory = open({.deadline = kDeadline});
  save_async(directory, 1);
  directory.poll();
  while_time_passes([] { DeadlineClock::advance(2 * kDeadline); });
  EXPECT_TRUE(directory.wait());
  expect_latest(directory, 1);
}

TEST_F(Async, RanksThatComeByAfterTheDeadlineAreNotMissedByOneThatPolls) {
  auto directory = open({.deadline = kDeadline});
  save_async(directory, 1);
  while_time_passes([&] {
    for (int i = 0; i < 100; ++i) {
      if (rank() == 0) directory.poll();
      if (i == 50) DeadlineClock::advance(2 * kDeadline);
      std::this_thread::sleep_for(1ms);
    }
  });
  EXPECT_TRUE(directory.wait());
  expect_latest(directory, 1);
}

TEST_F(Async, StatesAreRestoredTogetherOrFailTogether) {
  auto directory = open();
  EXPECT_FALSE(directory.restore_all(weights_));
  save(directory, 7);
  weights_.set(0);
  EXPECT_EQ(directory.restore_all(weights_)->info().step, 7);
  EXPECT_THAT(weights_.values, Each(7.0));
  weights_.is_broken = rank() == last();
  EXPECT_ERROR_OF_ALL(directory.restore_all(weights_), callback, {"the weights do not fit"});
}

}  // namespace rota::test::async_test
