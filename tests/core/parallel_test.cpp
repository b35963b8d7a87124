#include "core/parallel.hpp"
#include "core/wait.hpp"
#include "test.hpp"

namespace rota::test::parallel_test {

TEST(ParallelFor, TakesEachItemOnceAtAnyNumberOfItemsPartsAndThreads) {
  for (const std::int64_t count : {0, 1, 2, 7, 64, 1001}) {
    for (const std::int64_t part_size : {1, 2, 64, 5000}) {
      for (const int threads : {1, 2, 5, 100}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
        parallel_for("test", count, part_size, threads, [&](const LoopPart& part) {
          EXPECT_LE(part.end - part.begin, part_size);
          for (std::int64_t i = part.begin; i < part.end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& times) { return times == 1; }))
            << count << " items, " << part_size << " at once";
      }
    }
  }
}

TEST(ParallelFor, TellsTheCallersThreadFromOthers) {
  const auto caller = std::this_thread::get_id();
  parallel_for("test", 100, 1, 4, [&](const LoopPart& part) {
    EXPECT_EQ(part.is_callers, std::this_thread::get_id() == caller);
  });
}

// Whichever thread comes first.
TEST(ParallelFor, ThrowsTheFirstErrorThatThereIs) {
  for (int round = 0; round < 200; ++round) {
    const auto fail = [&](const LoopPart& part) {
      if (part.end > 30 + round) throw std::runtime_error(std::to_string(part.begin));
    };
    EXPECT_THAT([&] { parallel_for("test", 1000, 3, 4, fail); },
                ThrowsMessage<std::runtime_error>(std::to_string((30 + round) / 3 * 3)));
  }
}

// Also when it has done its own part.
TEST(ParallelFor, ACallerThatIsCalledAwayWaitsForNobody) {
  struct CalledAway : Stopped {};
  const auto start = std::chrono::steady_clock::now();
  const auto is_over = [&](int milliseconds) {
    return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(milliseconds);
  };
  std::atomic<bool> has_helper = false;
  const WaitScope scope{Wait([&] {
    if (has_helper && is_over(100)) throw CalledAway();
  })};
  EXPECT_THROW(parallel_for("test", 2, 1, 2,
                            [&](const LoopPart& part) {
                              if (!part.is_callers) has_helper = true;
                              while (!is_over(20'000) && !(part.is_callers && has_helper)) {
                                if (!part.is_callers) Wait::here().check();
                              }
                            }),
               CalledAway);
  EXPECT_FALSE(is_over(10'000));
}

TEST(ParallelFor, BeginsNothingBehindAnError) {
  std::atomic<int> begun = 0;
  EXPECT_THROW(parallel_for("test", 1'000'000, 1, 4,
                            [&](const LoopPart& /*part*/) {
                              ++begun;
                              throw std::runtime_error("no");
                            }),
               std::runtime_error);
  EXPECT_LE(begun, 4);
}

}  // namespace rota::test::parallel_test
