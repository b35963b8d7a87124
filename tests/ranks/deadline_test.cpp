// Whatever waits for other ranks ends: a rank that does not come is named on all others, unless the one that
// works shows progress.

#include "all_of_ranks.hpp"
#include "messages.hpp"
#include "ranks/collectives.hpp"
#include "ranks/exchange.hpp"
#include "ranks/nodes.hpp"

namespace rota::test::deadline_test {

using Call = std::function<void(const Communicator&)>;

std::vector<std::pair<std::string, Call>> calls() {
  return {{"StopSignal",
           [](const Communicator& comm) {
             StopSignal stop(comm);
             (void)stop.requested();
           }},
          {"on_first_rank",
           [](const Communicator& comm) { (void)ranks::on_first_rank(comm, "test", [] { return 1; }); }},
          {"all_gather", [](const Communicator& comm) { (void)ranks::all_gather(comm, "test", "x"); }},
          {"exchange",
           [](const Communicator& comm) { (void)ranks::exchange(comm, "test", [](ranks::Messages&) {}); }},
          {"duplicate", [](const Communicator& comm) { (void)comm.duplicate(); }},
          {"data_parallel", [](const Communicator& comm) { (void)comm.data_parallel(0); }},
          {"Nodes", [](const Communicator& comm) { ranks::Nodes nodes(comm.duplicate()); }},
          {"Catalog", [](const Communicator& comm) { Catalog catalog(comm, "/dev/null"); }},
          {"Loader", [](const Communicator& comm) { Loader loader(comm, nullptr); }},
          {"StreamLoader", [](const Communicator& comm) { StreamLoader loader(comm, nullptr); }},
          {"CheckpointDirectory",
           [](const Communicator& comm) { CheckpointDirectory directory(comm, "/nowhere"); }}};
}

class WhatWaits : public TestWithParam<std::pair<std::string, Call>> {};

TEST_P(WhatWaits, NamesTheRankThatDoesNotComeAndIsOfNoUseFromThenOn) {
  const bool is_stop = GetParam().first == "StopSignal";
  if (everyone().size() != 3 || are_threads() == is_stop) {
    GTEST_SKIP() << "takes a second: on three threads, but of processes a StopSignal, which they have each";
  }
  const int last = everyone().size() - 1;
  for (const int missing : is_stop ? std::vector{0, last} : std::vector{last}) {
    const Communicator comm = everyone().duplicate();
    wait_without(missing, [&] {
      EXPECT_ERROR(GetParam().second(comm), timeout, {fmt::format("rank {} did not arrive", missing)});
    });
    ranks::exchange_of(comm).abandon();
  }
}

INSTANTIATE_TEST_SUITE_P(Each, WhatWaits, ValuesIn(calls()),
                         [](const auto& test) { return test.param.first; });

TEST(Deadline, LeavesACommunicatorOfNoUse) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const Communicator comm = everyone().duplicate();
  const int missing = everyone().size() - 1;
  wait_without(missing, [&] {
    EXPECT_TRUE(error_of([&] { ranks::agree(comm, "first", nullptr); }));
    EXPECT_ERROR(comm.duplicate(), timeout, {"ranks were given up before (first: "});
  });
  if (everyone().rank() != missing) return;
  EXPECT_ERROR(ranks::agree(comm, "late", nullptr), timeout, {"did not arrive"});
}

TEST(LongWait, IsToldOnceByOneRankWhichNamesTheMissingAndTheCall) {
  if (!are_three_threads()) GTEST_SKIP() << "takes seconds: on three threads";
  std::optional<SinkMessages> told;
  if (is_root()) told.emplace();
  for (const int missing : {0, 1, 2}) {
    const Communicator comm = everyone().duplicate(0ms);
    if (comm.rank() == missing) {
      std::this_thread::sleep_for(200ms);
      DeadlineClock::advance(6s);
      std::this_thread::sleep_for(2s);
    }
    ranks::agree(comm, "make a loader", nullptr);
    if (is_root()) {
      EXPECT_THAT(told->lines,
                  ElementsAre(HasSubstr(fmt::format("make a loader: waits for rank {}, for 5 s", missing))));
      told->lines.clear();
    }
    ranks::agree(everyone(), "go on", nullptr);
  }
}

// Whether ranks that have a deadline wait for `worker`, which works far longer, and shows it or not.
bool wait_for(int worker, bool shows_progress) {
  constexpr auto kShort = 400ms;
  const Communicator comm = everyone().duplicate(kShort);
  const auto work = [&] {
    const auto until = std::chrono::steady_clock::now() + 3 * kShort;
    while (comm.rank() == worker && std::chrono::steady_clock::now() < until) {
      if (shows_progress) ranks::show_progress(comm);
      std::this_thread::sleep_for(5ms);
    }
  };
  const auto error = error_of([&] { comm.together("work", work); });
  ranks::agree(everyone(), "wait for the others", nullptr);
  return !error;
}

TEST(Deadline, RunsAnewWithEachSignOfProgressOfWhicheverRank) {
  if (!are_three_threads()) GTEST_SKIP() << "takes seconds: on three threads";
  EXPECT_TRUE(wait_for(0, true));
  EXPECT_TRUE(wait_for(everyone().size() - 1, true));
  EXPECT_FALSE(wait_for(0, false));
}

}  // namespace rota::test::deadline_test
