// A wait ends early where the language that called has a signal to attend to.

#include <latch>

#include "test.hpp"
#include "values/interrupt.hpp"

namespace rota::test::interrupt_test {

struct Interrupted {};

void interrupt() { throw Interrupted(); }

/// Samples without fields, of which none is read before `may_read` is.
class Gated final : public Source {
 public:
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  void read(std::span<const SampleId>, const BatchView&) const override {
    is_reading = true;
    is_reading.notify_all();
    may_read.wait();
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    const std::scoped_lock lock(mutex_);
    made_for_.push_back(worker.world);
    return nullptr;
  }
  /// The worlds that workers asked for an instance in, in turn.
  [[nodiscard]] std::vector<World> made_for() const {
    const std::scoped_lock lock(mutex_);
    return made_for_;
  }

  mutable std::latch may_read{1};
  mutable std::atomic<bool> is_reading = false;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<World> made_for_;
  std::vector<Field> fields_;
};

TEST(Interrupt, EndsAWaitForABatchWhichTheNextCallTriesAgain) {
  const auto source = std::make_shared<Gated>();
  Loader loader(source, {.global_batch_size = 10, .workers = 2}, World{});
  {
    const internal::InterruptScope scope(&interrupt);
    EXPECT_THROW((void)loader.next(), Interrupted);
  }
  EXPECT_EQ(loader.position(), Position{});
  source->may_read.count_down();
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), 10);
}

TEST(Interrupt, EndsAWaitForReadAhead) {
  const auto source = std::make_shared<Gated>();
  Loader loader(source, {.global_batch_size = 10}, World{});
  {
    const internal::InterruptScope scope(&interrupt);
    EXPECT_THROW(loader.warm_up(), Interrupted);
  }
  source->may_read.count_down();
  loader.warm_up();
  EXPECT_GT(loader.stats().ready_batches, 0);
}

TEST(Interrupt, OfARescaleLeavesTheLoaderInTheNewWorld) {
  const auto source = std::make_shared<Gated>();
  Loader loader(source, {.global_batch_size = 10}, World{});
  source->is_reading.wait(false);
  {
    const internal::InterruptScope scope(&interrupt);
    EXPECT_THROW(loader.rescale({.rank = 1, .size = 2}), Interrupted);
  }
  source->may_read.count_down();
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), 5);
  EXPECT_EQ(source->made_for(), (std::vector<World>{{}, {.rank = 1, .size = 2}}));
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
