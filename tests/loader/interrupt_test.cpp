// A wait ends early where the language that called has a signal to attend to.

#include <latch>

#include "source/told_source.hpp"
#include "test.hpp"
#include "values/interrupt.hpp"

namespace rota::test::interrupt_test {

struct Interrupted {};

void interrupt() { throw Interrupted(); }

/// A source of which no sample is read before `may_read` is.
struct Gated {
  Gated() {
    source->on_read = [this](SampleId) {
      is_reading = true;
      is_reading.notify_all();
      may_read.wait();
    };
    source->on_worker = [this](const WorkerInfo& worker) {
      const std::scoped_lock lock(mutex);
      made_for.push_back(worker.world);
      return nullptr;
    };
  }

  std::shared_ptr<ToldSource> source = told(100);
  std::latch may_read{1};
  std::atomic<bool> is_reading = false;
  std::mutex mutex;
  std::vector<World> made_for;  ///< the worlds that workers asked for an instance in, in turn
};

TEST(Interrupt, EndsAWaitForABatchWhichTheNextCallTriesAgain) {
  Gated gated;
  Loader loader(gated.source, {.global_batch_size = 10, .workers = 2}, World{});
  {
    const internal::InterruptScope scope(&interrupt);
    EXPECT_THROW((void)loader.next(), Interrupted);
  }
  EXPECT_EQ(loader.position(), Position{});
  gated.may_read.count_down();
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), 10);
}

TEST(Interrupt, EndsAWaitForReadAhead) {
  Gated gated;
  Loader loader(gated.source, {.global_batch_size = 10}, World{});
  {
    const internal::InterruptScope scope(&interrupt);
    EXPECT_THROW(loader.warm_up(), Interrupted);
  }
  gated.may_read.count_down();
  loader.warm_up();
  EXPECT_GT(loader.stats().ready_batches, 0);
}

TEST(Interrupt, OfARescaleLeavesTheLoaderInTheNewWorld) {
  Gated gated;
  Loader loader(gated.source, {.global_batch_size = 10}, World{});
  gated.is_reading.wait(false);
  {
    const internal::InterruptScope scope(&interrupt);
    EXPECT_THROW(loader.rescale({.rank = 1, .size = 2}), Interrupted);
  }
  gated.may_read.count_down();
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), 5);
  EXPECT_EQ(gated.made_for, (std::vector<World>{{}, {.rank = 1, .size = 2}}));
}

TEST(Interrupt, IsOfTheInnermostScopeAndOfItsThreadAlone) {
  const internal::InterruptScope outer(&interrupt);
  {
    const internal::InterruptScope inner([] {});
    EXPECT_NO_THROW(internal::InterruptScope::ask());
  }
  EXPECT_THROW(internal::InterruptScope::ask(), Interrupted);
  bool is_open_elsewhere = true;
  std::jthread([&] { is_open_elsewhere = internal::InterruptScope::is_open(); }).join();
  EXPECT_FALSE(is_open_elsewhere);
}

}  // namespace rota::test::interrupt_test
