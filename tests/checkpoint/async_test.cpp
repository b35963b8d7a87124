// A save in the background, whatever the loop does meanwhile.

#include "directory_access.hpp"
#include "faulty_file_system.hpp"
#include "mpi_fixture.hpp"
#include "no_threads.hpp"
#include "test.hpp"

namespace rota::test::async_test {

using rota::CheckpointDirectory;
using rota::CheckpointDirectoryAccess;
using rota::ErrorCode;
using rota::Snapshot;
using rota::test::even_share;
using rota::test::IsError;

constexpr std::int64_t kRows = 50'000;

// Weights of which each rank holds its share, all of one value.
struct Weights {
  explicit Weights(const rota::World& world)
      : share(even_share(kRows, world)), values(static_cast<std::size_t>(2 * share.count)) {}

  void set(double value) { std::ranges::fill(values, value); }
  void save(Snapshot& snapshot) const {
    if (is_broken) throw std::runtime_error("the weights are not numbers");
    snapshot.tensor("weights", {2}, share.count, values);
  }
  void restore(const rota::Checkpoint& checkpoint) {
    if (is_broken) throw std::runtime_error("the weights do not fit");
    values = checkpoint.read<double>("weights", share);
  }

  rota::RowRange share;
  std::vector<double> values;
  bool is_broken = false;
};

class Async : public rota::test::MpiCheckpointTest {
 protected:
  static std::vector<double> all_weights(const rota::Checkpoint& checkpoint) {
    return checkpoint.read<double>("weights");
  }
  static int last() { return size() - 1; }

  void expect_latest(CheckpointDirectory& directory, std::int64_t step) {
    const auto checkpoint = directory.latest();
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(checkpoint->info().step, step);
    EXPECT_THAT(all_weights(*checkpoint), AllOf(SizeIs(2 * kRows), Each(static_cast<double>(step))));
  }

  Weights weights_{comm().world()};
};

TEST_F(Async, SavesWhatWasThereWhenItWasCalled) {
  auto directory = open();
  for (const int step : {1, 2, 3}) {
    weights_.set(step);
    directory.save_all_async(step, weights_);
    weights_.set(-1);
    const auto report = directory.wait();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->info.step, step);
    EXPECT_GT(report->seconds, 0);
    expect_latest(directory, step);
  }
  EXPECT_FALSE(directory.wait());
}

TEST_F(Async, GoesOnWhenTheLoopComesByAndNeedsNoWait) {
  auto directory = open();
  weights_.set(1);
  directory.save_all_async(1, weights_);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int steps = 0;
  while (!directory.poll() && std::chrono::steady_clock::now() < until) {
    ++steps;
    std::this_thread::sleep_for(std::chrono::microseconds(rank() * 100));  // ranks come by when they like
  }
  EXPECT_GT(steps, 0);
  EXPECT_THAT(names(), ElementsAre("checkpoint-000000000000.h5"));
  EXPECT_TRUE(directory.poll());
  expect_latest(directory, 1);
}

TEST_F(Async, TheNextSaveWaitsForTheOneUnderWay) {
  auto directory = open({.keep_last = 3});
  for (const int step : {1, 2}) {
    weights_.set(step);
    directory.save_all_async(step, weights_);
  }
  weights_.set(3);
  EXPECT_EQ(directory.save_all(3, weights_).info.serial, 2);
  EXPECT_THAT(directory.list(), SizeIs(3));
  expect_latest(directory, 3);
}

TEST_F(Async, ARankThatCannotWriteFailsTheNextCallOnAllAndNothingIsLeft) {
  rota::test::FaultyFileSystem system;
  auto directory = CheckpointDirectoryAccess::open(comm(), path_, {}, system);
  weights_.set(1);
  directory.save_all(1, weights_);
  for (int call = 0; call < 3; ++call) {
    system.fail("pwrite", rank() == last() ? 0 : -1, EIO);
    directory.save_all_async(2, weights_);
    EXPECT_THAT(same_error_of([&] {
                  if (call == 0) directory.wait();
                  if (call == 1) directory.save_all(3, weights_);
                  if (call == 2) (void)directory.latest();
                }),
                IsError(ErrorCode::io, "write"));
    EXPECT_THAT(names(), ElementsAre("checkpoint-000000000000.h5"));
  }
  EXPECT_FALSE(directory.wait());
  expect_latest(directory, 1);
}

TEST_F(Async, AStateThatThrowsOnOneRankThrowsOnAllWhenWaitedFor) {
  auto directory = open();
  weights_.is_broken = rank() == last();
  directory.save_all_async(1, weights_);
  EXPECT_THAT(same_error_of([&] { directory.wait(); }),
              IsError(ErrorCode::callback, "the weights are not numbers"));
  EXPECT_THAT(names(), SizeIs(0));
}

TEST_F(Async, ADirectoryThatIsClosedGivesUpTheSaveUnderWay) {
  {
    auto directory = open();
    weights_.set(1);
    directory.save_all(1, weights_);
    directory.save_all_async(2, weights_);
    if (size() == 1) directory.wait();  // alone it does not need to be waited for
  }
  auto directory = open();
  weights_.set(3);
  directory.save_all(3, weights_);
  expect_latest(directory, 3);
  for (const std::string& name : names()) EXPECT_THAT(name, ::testing::StartsWith("checkpoint-"));
}

TEST_F(Async, ARankThatCanStartNoThreadSavesWhenItWaits) {
  const auto none = rank() == last() ? std::make_unique<rota::test::NoThreads>() : nullptr;
  if (none) {
    EXPECT_ANY_THROW(std::thread([] {}).join());
  }
  auto directory = open();
  for (const int step : {1, 2}) {
    weights_.set(step);
    directory.save_all_async(step, weights_);
    weights_.set(-1);
    const auto report = directory.wait();
    ASSERT_TRUE(report);
    expect_latest(directory, step);
  }
}

TEST_F(Async, ADirectoryThatIsMovedGoesOnSaving) {
  auto first = open();
  weights_.set(1);
  first.save_all_async(1, weights_);
  CheckpointDirectory second = std::move(first);
  second.poll();
  CheckpointDirectory third(comm(), path_ / "other");
  third = std::move(second);
  ASSERT_TRUE(third.wait());
  expect_latest(third, 1);
}

TEST_F(Async, ARankThatNeverWaitsIsNamed) {
  if (size() == 1) GTEST_SKIP() << "one rank has no others";
  auto directory = open({.deadline = std::chrono::milliseconds(300)});
  directory.save_all_async(1, weights_);
  if (rank() == last()) std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  const auto error = rota::test::thrown_error([&] { directory.wait(); });
  EXPECT_THAT(error, IsError(ErrorCode::timeout, "rank " + std::to_string(last()) + " did not arrive"));
}

TEST_F(Async, ALoopThatTakesLongerThanTheDeadlineIsNotMissed) {
  auto directory = open({.deadline = std::chrono::milliseconds(300)});
  weights_.set(1);
  directory.save_all_async(1, weights_);
  directory.poll();
  if (rank() == last()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(directory.wait());
  expect_latest(directory, 1);
}

TEST_F(Async, StatesAreRestoredTogetherOrFailTogether) {
  auto directory = open();
  EXPECT_FALSE(directory.restore_all(weights_));
  weights_.set(7);
  directory.save_all(7, weights_);
  weights_.set(0);
  EXPECT_EQ(directory.restore_all(weights_)->info().step, 7);
  EXPECT_THAT(weights_.values, Each(7.0));
  weights_.is_broken = rank() == last();
  EXPECT_THAT(same_error_of([&] { (void)directory.restore_all(weights_); }),
              IsError(ErrorCode::callback, "the weights do not fit"));
}

}  // namespace rota::test::async_test
