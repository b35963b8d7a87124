// Whatever waits for other ranks ends: a rank that does not come is named on all others, unless the one that
// works shows progress.

#include "all_of_ranks.hpp"
#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "ranks/exchange.hpp"
#include "ranks/messages.hpp"
#include "ranks/nodes.hpp"
#include "source/reading.hpp"
#include "test.hpp"

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
      EXPECT_THAT(error_of([&] { GetParam().second(comm); }),
                  is_error(ErrorCode::timeout, {fmt::format("rank {} did not arrive", missing)}));
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
    EXPECT_THAT(error_of([&] { (void)comm.duplicate(); }),
                is_error(ErrorCode::timeout, {"ranks were given up before (first: "}));
  });
  if (everyone().rank() != missing) return;
  EXPECT_THAT(error_of([&] { ranks::agree(comm, "late", nullptr); }),
              is_error(ErrorCode::timeout, {"did not arrive"}));
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

// Where all find that the last rank has gone.
class SeveredTransport final : public ranks::Transport {
 public:
  explicit SeveredTransport(const Communicator& comm) : Transport(comm.rank(), comm.size()) {}
  Begun reduce(std::span<std::int64_t>, ranks::Reduction) override { throw ranks::RankLost(); }
  Begun sum(std::span<double>) override { throw ranks::RankLost(); }
  Begun broadcast(std::span<std::byte>, int) override { throw ranks::RankLost(); }
  Begun exchange(ranks::Parts<const std::byte>, ranks::Parts<std::byte>) override { throw ranks::RankLost(); }
  Begun duplicate(std::unique_ptr<Transport>&) override { throw ranks::RankLost(); }
  std::unique_ptr<Transport> split(std::span<const int>) override { throw ranks::RankLost(); }
  void post(int, std::string_view) override {}
  std::optional<ranks::Mail> take() override { return std::nullopt; }
  std::vector<int> lost() override { return {size() - 1}; }
};

TEST(Deadline, IsNotWaitedForWhereAnotherFindsThatARankHasGone) {
  if (!are_three_threads()) GTEST_SKIP() << "of a channel that is severed: on three threads";
  const Communicator meeting = everyone().duplicate(2s);
  ranks::PushQueue queue(ranks::make_communicator(std::make_unique<SeveredTransport>(meeting), 2s), meeting);
  const auto is_named = is_error(ErrorCode::timeout, {"take what rank 0 has read: rank 2 cannot be reached"});
  if (meeting.rank() == 0) EXPECT_THAT(error_of([&] { ranks::agree(meeting, "wait", nullptr); }), is_named);
  if (meeting.rank() == 1) EXPECT_THAT(error_of([&] { (void)queue.receive(); }), is_named);
  ranks::agree(everyone(), "wait for the others", nullptr);
}

}  // namespace rota::test::deadline_test
