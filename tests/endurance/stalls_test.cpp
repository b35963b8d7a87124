// One rank stops, is slow, or throws, in each phase of a save and of a restore.

#include <future>

#include "saved_state.hpp"
#include "stall_cases.hpp"
#include "test.hpp"

namespace rota::test::stalls_test {

using rota::test::Launched;
using rota::test::Said;
using rota::test::Stall;
using rota::test::Stalled;

constexpr const char* kFirst = "checkpoint-000000000000.h5 ";
constexpr const char* kSecond = "checkpoint-000000000001.h5 ";

std::string text_of(const Said& said, const std::string& what) {
  const auto found = said.find(what);
  return found == said.end() ? "(nothing)" : found->second.text;
}

std::size_t to_index(int rank) { return static_cast<std::size_t>(rank); }

class Stalls : public ::testing::TestWithParam<int> {
 protected:
  // Cases that leave their processes well, in one launch.
  std::vector<Stalled> run(const std::vector<Stall>& stalls) {
    Launched launched;
    std::vector<Stalled> cases =
        rota::test::run_together(GetParam(), stalls, directory_ / stalls.front().hitch, launched);
    EXPECT_EQ(launched.ended.code, 0) << launched.ended.output;
    for (const Stalled& one : cases) expect_hit(one);
    std::cout << GetParam() << " ranks: " << cases.size() << " cases in which a rank " << stalls.front().hitch
              << ", " << launched.ended.seconds << " s\n";
    return cases;
  }

  static void expect_hit(const Stalled& one) {
    EXPECT_EQ(text_of(one.said[to_index(one.stall.rank)], "hit"), one.stall.point) << describe(one);
  }

  static void expect_goes_on(const Stalled& one, std::int64_t newest, const std::string& names) {
    for (const Said& said : one.said) {
      EXPECT_EQ(text_of(said, "names"), names) << describe(one);
      EXPECT_EQ(text_of(said, "newest"), "ok " + std::to_string(newest)) << describe(one);
      EXPECT_EQ(text_of(said, "next"), "ok " + std::to_string(rota::test::kNextStep)) << describe(one);
    }
  }

  // Each in a launch of its own.
  template <typename Check>
  void run_alone(const std::vector<Stall>& stalls, Check&& check) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < stalls.size(); i = next++) {
        Launched launched;
        const fs::path path = directory_ / (stalls[i].hitch + std::to_string(i));
        const Stalled one = rota::test::run_together(GetParam(), {stalls[i]}, path, launched).front();
        EXPECT_FALSE(launched.hung()) << describe(one) << launched.ended.output;
        expect_hit(one);
        check(one, launched);
        expect_all_ended(one);
        expect_old_or_new(one);
      }
    };
    auto other = std::async(std::launch::async, work);  // they mostly wait
    work();
    other.get();
    std::cout << GetParam() << " ranks: " << stalls.size() << " cases in which a rank "
              << stalls.front().hitch << "\n";
  }

  // In time, with the phase in which it was missed.
  static void expect_named(const Stalled& one, const Said& said) {
    const auto is_timeout = [](const auto& entry) { return entry.second.text.starts_with("timeout: "); };
    const auto found = std::ranges::find_if(said, is_timeout);
    ASSERT_NE(found, said.end()) << describe(one);
    EXPECT_THAT(found->second.text,
                MatchesRegex("timeout: [a-z0-9 ]+: (a deadline was missed before.*)?rank " +
                             std::to_string(one.stall.rank) + " did not arrive before the deadline.*"))
        << describe(one);
    EXPECT_LE(found->second.milliseconds, rota::test::kMissedDeadline.count() + 2000) << describe(one);
    // Only what rank 0 does after the others have heard of the save is missed later.
    EXPECT_EQ(found->first, one.stall.point == "unlink" ? "newest" : "did") << describe(one);
  }

  static void expect_all_ended(const Stalled& one) {
    const auto left = rota::test::still_running(one);
    EXPECT_THAT(left, IsEmpty()) << describe(one);
    for (const std::int64_t pid : left) ::kill(static_cast<pid_t>(pid), SIGKILL);
  }

  static void expect_old_or_new(const Stalled& one) {
    const auto newest = rota::CheckpointDirectory({}, one.stall.directory).latest();
    ASSERT_TRUE(newest) << describe(one);
    EXPECT_THAT(newest->info().step, ::testing::AnyOf(rota::test::kOldStep, rota::test::kNewStep));
    EXPECT_EQ(rota::test::difference(*newest, rota::test::kStallBytes), "") << describe(one);
  }

  rota::test::TemporaryDirectory directory_;
};

TEST_P(Stalls, ARankThatStopsIsNamedByAllOthersInTimeAndTheJobEnds) {
  const auto stalls = rota::test::some_stalls(GetParam(), rota::test::kStops, 3);
  run_alone(stalls, [](const Stalled& one, const Launched& launched) {
    EXPECT_NE(launched.ended.code, 0) << describe(one);
    EXPECT_THAT(launched.ended.output, HasSubstr("error: ")) << describe(one);
    for (int rank = 0; rank < GetParam(); ++rank) {
      if (rank != one.stall.rank) expect_named(one, one.said[to_index(rank)]);
    }
  });
}

// The others are on their way out, and may have left calls behind that go on now.
TEST_P(Stalls, ARankThatReturnsWhenItWasGivenUpEndsInOrderWithTheOthers) {
  auto stalls = rota::test::all_stalls(GetParam(), rota::test::kReturns);
  if (!rota::test::wants_all()) {
    std::erase_if(stalls,
                  [](const Stall& one) { return one.point != "mpi_write" || one.rank + 1 < GetParam(); });
  }
  run_alone(stalls, [](const Stalled& one, const Launched& launched) {
    EXPECT_EQ(launched.ended.code, 1) << describe(one) << launched.ended.output;
    EXPECT_THAT(launched.ended.output, Not(HasSubstr("ignal"))) << describe(one);
    for (const Said& said : one.said) {
      const std::string what = one.stall.point == "unlink" ? "newest" : "did";
      EXPECT_THAT(text_of(said, what), StartsWith("timeout: ")) << describe(one);
    }
  });
}

TEST_P(Stalls, ARankThatIsSlowOrPausesIsWaitedFor) {
  for (const auto hitch : {rota::test::kLags, rota::test::kPauses}) {
    for (const Stalled& one : run(rota::test::some_stalls(GetParam(), hitch, 4))) {
      const bool saves = one.stall.operation != "restore";
      const std::int64_t step = saves ? rota::test::kNewStep : rota::test::kOldStep;
      for (const Said& said : one.said) {
        EXPECT_EQ(text_of(said, "did"), "ok " + std::to_string(step)) << describe(one);
      }
      expect_goes_on(one, step, saves ? kSecond : kFirst);
    }
  }
}

TEST_P(Stalls, ARankThatThrowsThrowsOnAllAndTheOldStateStays) {
  for (const Stalled& one : run(rota::test::some_stalls(GetParam(), rota::test::kThrows, 20))) {
    const std::string code = one.stall.point == "state" ? "callback" : "io";
    for (const Said& said : one.said) {
      EXPECT_EQ(text_of(said, "did"), text_of(one.said.front(), "did")) << describe(one);
      EXPECT_THAT(text_of(said, "did"), StartsWith(code + ": rank " + std::to_string(one.stall.rank) + ": "))
          << describe(one);
    }
    expect_goes_on(one, rota::test::kOldStep, kFirst);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stalls, ::testing::Values(2, 4),
                         [](const auto& test) { return std::to_string(test.param); });

}  // namespace rota::test::stalls_test
