// Waits for reads that do not end: the loader says what they are of, and they end early where the language
// that called has a signal to attend to.

#include <latch>

#include "core/wait.hpp"
#include "loader/course.hpp"

namespace rota::test::waits_test {

/// A source of which a sample, or none, is read before the gate is open.
struct Gated {
  explicit Gated(std::optional<std::int64_t> hangs = {}) {
    source->on_read = [this, hangs](SampleId id) {
      if (id.value != hangs.value_or(id.value)) return;
      is_reading = true;
      is_reading.notify_all();
      open.wait();
    };
    source->on_worker = [this](const WorkerInfo& worker) {
      const std::scoped_lock lock(mutex);
      made_for.push_back(worker.world);
      return nullptr;
    };
  }
  /// Opens the gate in a while.
  std::jthread open_after(std::chrono::milliseconds wait) {
    return std::jthread([this, wait] {
      std::this_thread::sleep_for(wait);
      open.count_down();
    });
  }

  std::shared_ptr<ToldSource> source = faulty(100, false);
  std::latch open{1};
  std::atomic<bool> is_reading = false;
  std::mutex mutex;
  std::vector<World> made_for;  ///< the worlds that workers asked for an instance in, in turn
};

LoaderOptions in_order(int workers, std::chrono::milliseconds slow_after,
                       std::function<void(const std::string&)> on_slow = {}) {
  return {.global_batch_size = 10,
          .shards = 1,
          .shuffle = Shuffle::none,
          .workers = workers,
          .slow_after = slow_after,
          .on_slow = std::move(on_slow)};
}

TEST(SlowRead, IsNamedAgainAndAgainAndLosesNothing) {
  Gated gated(17);
  std::vector<std::string> told;
  Loader loader(gated.source, in_order(2, 5ms, [&](const std::string& message) {
                  told.push_back(message);
                  if (told.size() == 3) gated.open.count_down();
                }));
  EXPECT_THAT(rest_of(loader), SizeIs(100));
  ASSERT_GE(told.size(), 3U);
  EXPECT_THAT(told[2], AllOf(HasSubstr("worker 1 has been at 5 of the 10 samples of step 1 for "),
                             HasSubstr("the first of which is sample 15 (place-15)")));
}

TEST(SlowRead, IsPrintedWhereNobodyIsToBeTold) {
  Gated gated(0);
  ::testing::internal::CaptureStderr();
  {
    Loader loader(gated.source, in_order(1, 5ms));
    const std::jthread later = gated.open_after(100ms);
    EXPECT_THAT(rest_of(loader), SizeIs(100));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("rota: next() waits: worker 0 has been at 10"));
}

TEST(SlowRead, IsNotNamedWhereItIsNotToBe) {
  Gated gated(0);
  Loader loader(gated.source, in_order(1, {}, [](const std::string& message) { ADD_FAILURE() << message; }));
  const std::jthread later = gated.open_after(20ms);
  EXPECT_THAT(rest_of(loader), SizeIs(100));
}

struct Interrupted : Stopped {};

void interrupt() { throw Interrupted(); }

// A signal ends what `wait` waits for.
void expect_interrupted(const std::function<void()>& wait) {
  const WaitScope scope{Wait(&interrupt)};
  EXPECT_THROW(wait(), Interrupted);
}

TEST(Interrupt, EndsAWaitForABatchWhichTheNextCallTriesAgain) {
  Gated gated;
  Loader loader(gated.source, {.global_batch_size = 10, .workers = 2}, World{});
  expect_interrupted([&] { (void)loader.next(); });
  EXPECT_EQ(loader.position(), Position{});
  gated.open.count_down();
  EXPECT_EQ((*loader.next()).size(), 10);
}

TEST(Interrupt, EndsAWaitForReadAhead) {
  Gated gated;
  Loader loader(gated.source, {.global_batch_size = 10}, World{});
  expect_interrupted([&] { loader.warm_up(); });
  gated.open.count_down();
  loader.warm_up();
  EXPECT_GT(loader.stats().ready_batches, 0);
}

TEST(Interrupt, OfARescaleLeavesTheLoaderInTheNewWorld) {
  Gated gated;
  Loader loader(gated.source, {.global_batch_size = 10}, World{});
  gated.is_reading.wait(false);
  expect_interrupted([&] { loader.rescale({.rank = 1, .size = 2}); });
  gated.open.count_down();
  EXPECT_EQ((*loader.next()).size(), 5);
  EXPECT_EQ(gated.made_for, (std::vector<World>{{}, {.rank = 1, .size = 2}}));
}

TEST(Interrupt, IsOfTheInnermostScopeAndOfItsThreadAlone) {
  const auto check = [] {
    std::this_thread::sleep_for(Wait::kInterval);
    Wait::here().check();
  };
  const WaitScope outer{Wait(&interrupt)};
  {
    const WaitScope inner{Wait([] {})};
    EXPECT_NO_THROW(check());
  }
  EXPECT_THROW(check(), Interrupted);
  std::jthread([&] { EXPECT_NO_THROW(check()); }).join();
}

}  // namespace rota::test::waits_test
