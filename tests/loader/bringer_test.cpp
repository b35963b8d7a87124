// What a loader has a spread source bring: enough, seldom, and for no longer than it is needed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "loader/counting_source.hpp"
#include "rota/loader.hpp"

namespace rota {
namespace {

constexpr std::int64_t kSteps = 64;  // that a loader has brought at a time

/// Reads only samples that are brought, and counts them.
class SpreadSource final : public CountingSource {
 public:
  explicit SpreadSource(std::int64_t size) : CountingSource(size) {
    on_size = on_read = [this](SampleId id) {
      const std::scoped_lock lock(mutex_);
      if (!here_.contains(id.value)) throw Error(ErrorCode::invalid_argument, "it was not brought");
    };
  }
  [[nodiscard]] bool is_spread() const override { return true; }
  [[nodiscard]] std::shared_ptr<const void> bring(std::span<const SampleId> ids) const override {
    const std::scoped_lock lock(mutex_);
    ++calls;
    kept += std::ssize(ids);
    most_kept = std::max(most_kept, kept);
    for (const SampleId id : ids) ++here_[id.value];
    return {static_cast<const void*>(this),
            [this, ids = std::vector(ids.begin(), ids.end())](const void*) { forget(ids); }};
  }

  mutable std::int64_t calls = 0;
  mutable std::int64_t kept = 0;
  mutable std::int64_t most_kept = 0;

 private:
  void forget(const std::vector<SampleId>& ids) const {
    const std::scoped_lock lock(mutex_);
    kept -= std::ssize(ids);
    for (const SampleId id : ids) {
      if (--here_[id.value] == 0) here_.erase(id.value);
    }
  }

  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, int> here_;
};

/// Workers and read-ahead of all kinds.
class Bringing : public ::testing::TestWithParam<std::pair<int, std::int64_t>> {
 protected:
  [[nodiscard]] Loader load(std::int64_t global_batch_size) const {
    return {source_,
            {.global_batch_size = global_batch_size, .workers = workers(), .read_ahead_batches = ahead()}};
  }
  [[nodiscard]] static int workers() { return GetParam().first; }
  [[nodiscard]] static std::int64_t ahead() { return GetParam().second; }

  std::shared_ptr<const SpreadSource> source_ = std::make_shared<SpreadSource>(8000);
};

TEST_P(Bringing, IsDoneOnceForManySteps) {
  for (const std::int64_t batch : {4, 125, 127, 8000}) {
    const std::int64_t before = source_->calls;
    std::int64_t steps = 0;
    Loader loader = load(batch);
    for (const Batch& each : loader) steps += each.size() > 0 ? 1 : 0;
    EXPECT_EQ(steps, (8000 + batch - 1) / batch);
    EXPECT_EQ(source_->calls - before, (steps + kSteps - 1) / kSteps);
  }
}

TEST_P(Bringing, LastsForTheStepsAheadAndNoLonger) {
  {
    Loader loader = load(4);  // 2000 steps
    for (const Batch& batch : loader) EXPECT_EQ(batch.size(), 4);
    EXPECT_LE(source_->most_kept, 4 * (3 * kSteps + 2 * ahead()));
  }
  EXPECT_EQ(source_->kept, 0);
}

TEST_P(Bringing, LetsReadAheadAsFarAsTheOptionsDo) {
  if (workers() == 0) return;
  Loader loader = load(4);
  for (int step = 0; step < 200; ++step) {
    if (step % 9 == 0) {
      loader.warm_up();
      EXPECT_EQ(loader.stats().ready_batches, ahead());
    }
    loader.next();
  }
}

TEST_P(Bringing, BeginsAnewWhereTheLoaderGoesOn) {
  std::mt19937_64 random(1);
  Loader loader = load(16);
  for (int move = 0; move < 30; ++move) {
    for (auto steps = random() % 100; steps > 0; --steps) EXPECT_NO_THROW(loader.next());
    if (move % 3 == 0) loader.seek({.consumed = static_cast<std::int64_t>(random() % 8000)});
    if (move % 3 == 1) loader.rescale({.rank = static_cast<int>(random() % 3), .size = 3});
    if (move % 3 == 2) loader.set_global_batch_size(static_cast<std::int64_t>(1 + random() % 40));
    if (move % 4 == 0) loader.warm_up();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Bringing,
                         ::testing::Values(std::pair(0, 4), std::pair(1, 1), std::pair(2, 5),
                                           std::pair(2, 64), std::pair(1, 65), std::pair(3, 150)));

}  // namespace
}  // namespace rota
