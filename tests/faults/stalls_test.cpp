// One rank stops, is slow, or throws, in each phase of a save and of a restore.

#include "faults.hpp"
#include "launch.hpp"

namespace rota::test::stalls_test {

struct Stalled {
  std::string operation;
  int rank = 0;
  std::string point;
  std::string hitch;

  fs::path directory = {};
  CaseReport said = {};
  Ended ended = {};
  bool hung = false;

  friend std::ostream& operator<<(std::ostream& out, const Stalled& one) {
    out << fmt::format("{} {} {} {}\n", one.operation, one.rank, one.point, one.hitch);
    for (const Said& by_rank : one.said) out << fmt::format("  {}\n", fmt::join(by_rank, ", "));
    return out << one.ended.output;
  }
};

// The points at which a rank may stall.
std::vector<std::string> points_of(std::string_view operation, bool is_root) {
  std::vector<std::string> points{"before", "state"};
  const auto add = [&](std::initializer_list<const char*> more) {
    points.insert(points.end(), more.begin(), more.end());
  };
  if (operation == "restore") {
    if (is_root) add({"list"});
    add({"open", "pread:0", "pread:2"});
    return points;
  }
  if (operation == "async") add({"between"});
  if (is_root) {
    add({"list:0", "list:1", "create", "fallocate", "pwrite:0", "pwrite:1"});
    add({"page", "fsync:0", "close", "rename", "fsync:1", "unlink"});
  } else {
    add({"open", "pwrite:0", "close"});
  }
  return points;
}

// Whether a failure there is heard of.
bool can_throw(std::string_view point) {
  return point != "before" && point != "between" && point != "unlink";
}

// A process that has been killed closes its files, and so gives up its locks, before it is a zombie.
bool is_running(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string number;
  std::string name;
  std::string state;
  file >> number >> name >> state;
  return name == "(test_child)" && state != "Z" && state != "X";
}

class Stalls : public TestWithParam<int> {
 protected:
  // Every point of every operation on every rank at which `hitch` makes sense; about `count` of them.
  static std::vector<Stalled> stalls(std::string_view hitch, std::size_t count = 1000) {
    std::vector<Stalled> all;
    for (const char* operation : {"save", "async", "restore"}) {
      for (int rank = 0; rank < GetParam(); ++rank) {
        for (const std::string& point : points_of(operation, rank == 0)) {
          if (hitch == kThrows && !can_throw(point)) continue;
          all.push_back({operation, rank, point, std::string(hitch)});
        }
      }
    }
    if (all.size() <= count) return all;
    std::vector<Stalled> some;
    for (std::size_t i = 0; i < count; ++i) some.push_back(all[(2 * i + 1) * all.size() / (2 * count)]);
    return some;
  }

  // All in one launch.
  void run(std::span<Stalled> stalls) {
    static std::atomic<int> number = 0;
    std::vector<std::string> lines;
    for (Stalled& one : stalls) {
      one.directory = directory_ / std::to_string(number++);
      lines.push_back(fmt::format("{} {} {} {} {}", one.directory.string(), one.operation, one.rank,
                                  one.point, one.hitch));
    }
    const Launched launched = launch("stall", GetParam(), lines, 60 + 4 * static_cast<int>(stalls.size()));
    ASSERT_THAT(launched.cases, SizeIs(stalls.size())) << launched.ended.output;
    for (std::size_t i = 0; i < stalls.size(); ++i) {
      stalls[i].said = launched.cases[i];
      stalls[i].ended = launched.ended;
      stalls[i].hung = launched.hung;
      EXPECT_EQ(said(stalls[i].said.at(static_cast<std::size_t>(stalls[i].rank)), "hit"), stalls[i].point)
          << stalls[i];
    }
  }

  // Those that leave their processes well.
  std::vector<Stalled> run_together(std::vector<Stalled> stalls) {
    run(stalls);
    EXPECT_EQ(stalls.front().ended.code, 0) << stalls.front().ended.output;
    return stalls;
  }

  static void expect_goes_on(const Stalled& one, std::int64_t newest, int serial) {
    for (const Said& by_rank : one.said) {
      EXPECT_EQ(said(by_rank, "names"), fmt::format("checkpoint-{:012}.h5", serial)) << one;
      EXPECT_EQ(said(by_rank, "newest"), fmt::format("ok {}", newest)) << one;
      EXPECT_EQ(said(by_rank, "next"), fmt::format("ok {}", kNextStep)) << one;
    }
  }

  // Each in a launch of its own: they mostly wait.
  void run_alone(std::vector<Stalled> stalls, const std::function<void(const Stalled&)>& check) {
    do_at_once(6, stalls.size(), [&](std::size_t i) {
      run(std::span(stalls).subspan(i, 1));
      EXPECT_FALSE(stalls[i].hung) << stalls[i];
      check(stalls[i]);
      expect_all_ended(stalls[i]);
      expect_old_or_new(stalls[i]);
    });
  }

  // In time, with the phase in which it was missed.
  static void expect_named(const Stalled& one, const Said& by_rank) {
    // Only what rank 0 does after the others have heard of the save is missed later.
    const std::string what = one.point == "unlink" ? "newest" : "did";
    EXPECT_THAT(said(by_rank, what),
                MatchesRegex(fmt::format(
                    "timeout: [a-z0-9 ]+: (a deadline was missed before.*)?rank {} did not arrive "
                    "before the deadline.*",
                    one.rank)))
        << one;
    EXPECT_LE(std::stol("0" + said(by_rank, "ms of " + what)), kMissedDeadline / 1ms + 2000) << one;
  }

  static void expect_all_ended(const Stalled& one) {
    for (const Said& by_rank : one.said) {
      const std::int64_t pid = std::stol("0" + said(by_rank, "pid"));
      for (int i = 0; i < 100 && is_running(pid); ++i) std::this_thread::sleep_for(20ms);
      EXPECT_FALSE(is_running(pid)) << one;
      if (is_running(pid)) ::kill(static_cast<pid_t>(pid), SIGKILL);
    }
  }

  static void expect_old_or_new(const Stalled& one) {
    const auto newest = CheckpointDirectory({}, one.directory).latest();
    ASSERT_TRUE(newest) << one;
    EXPECT_THAT(newest->info().step, AnyOf(kOldStep, kNewStep));
    EXPECT_EQ(difference(*newest, kStateBytes), "") << one;
  }

  // ---- what is promised ----

  void expect_stops_are_named(std::vector<Stalled> stalls) {
    run_alone(std::move(stalls), [](const Stalled& one) {
      EXPECT_NE(one.ended.code, 0) << one;
      EXPECT_THAT(one.ended.output, HasSubstr("error: ")) << one;
      for (int rank = 0; rank < GetParam(); ++rank) {
        if (rank != one.rank) expect_named(one, one.said.at(static_cast<std::size_t>(rank)));
      }
    });
  }

  // The others are on their way out; calls they left behind may go on. It may not have heard of its save.
  void expect_returns_end_in_order(std::vector<Stalled> stalls) {
    run_alone(std::move(stalls), [](const Stalled& one) {
      EXPECT_EQ(one.ended.code, 1) << one;
      EXPECT_THAT(one.ended.output, Not(ContainsRegex("[Ss]ignal[: ]"))) << one;
      for (const Said& by_rank : one.said) {
        const bool later = one.point == "unlink" && (!by_rank.contains("hit") || by_rank.contains("newest"));
        EXPECT_THAT(said(by_rank, later ? "newest" : "did"), StartsWith("timeout: ")) << one;
      }
    });
  }

  void expect_is_waited_for(std::vector<Stalled> stalls) {
    for (const Stalled& one : run_together(std::move(stalls))) {
      const bool saves = one.operation != "restore";
      const std::int64_t step = saves ? kNewStep : kOldStep;
      for (const Said& by_rank : one.said) EXPECT_EQ(said(by_rank, "did"), fmt::format("ok {}", step)) << one;
      expect_goes_on(one, step, saves ? 1 : 0);
    }
  }

  void expect_throws_on_all(std::vector<Stalled> stalls) {
    for (const Stalled& one : run_together(std::move(stalls))) {
      const char* code = one.point == "state" ? "callback" : "io";
      for (const Said& by_rank : one.said) {
        EXPECT_EQ(said(by_rank, "did"), said(one.said.front(), "did")) << one;
        EXPECT_THAT(said(by_rank, "did"), StartsWith(fmt::format("{}: rank {}: ", code, one.rank))) << one;
      }
      expect_goes_on(one, kOldStep, 0);
    }
  }

  TemporaryDirectory directory_ = make_fast_directory();
};
using StallsCampaign = Stalls;

TEST_P(Stalls, ARankThatStopsIsNamedByAllOthersInTimeAndTheJobEnds) {
  expect_stops_are_named(stalls(kStops, 2));
}
TEST_P(Stalls, ARankThatReturnsWhenItWasGivenUpEndsInOrderWithTheOthers) {
  auto some = stalls(kReturns);
  std::erase_if(some, [](const auto& one) { return one.point != "pwrite:0" || one.rank + 1 < GetParam(); });
  expect_returns_end_in_order(some);
}
TEST_P(Stalls, ARankThatIsSlowOrPausesIsWaitedFor) {
  for (const auto hitch : {kLags, kPauses}) expect_is_waited_for(stalls(hitch, 3));
}
TEST_P(Stalls, ARankThatThrowsThrowsOnAllAndTheOldStateStays) { expect_throws_on_all(stalls(kThrows, 20)); }

TEST_P(StallsCampaign, ARankThatStopsIsNamedByAllOthersInTimeAndTheJobEnds) {
  expect_stops_are_named(stalls(kStops, 80));
}
TEST_P(StallsCampaign, ARankThatReturnsWhenItWasGivenUpEndsInOrderWithTheOthers) {
  expect_returns_end_in_order(stalls(kReturns, 50));
}
TEST_P(StallsCampaign, ARankThatIsSlowOrPausesIsWaitedFor) {
  for (const auto hitch : {kLags, kPauses}) expect_is_waited_for(stalls(hitch, 60));
}
TEST_P(StallsCampaign, ARankThatThrowsThrowsOnAllAndTheOldStateStays) {
  expect_throws_on_all(stalls(kThrows));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stalls, Values(3), PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Ranks, StallsCampaign, Values(2, 4), PrintToStringParamName());

}  // namespace rota::test::stalls_test
