#include <climits>

#include "moved_from.hpp"
#include "mpi/collectives.hpp"
#include "mpi/deferred_reduction.hpp"
#include "mpi/nodes.hpp"
#include "mpi_main.hpp"
#include "test.hpp"
#include "unprivileged.hpp"
#include "values/interrupt.hpp"

namespace rota::test::collectives_test {

using namespace mpi;  // NOLINT(google-build-using-namespace)

/// What `work` throws on this rank.
template <typename Work>
std::pair<ErrorCode, std::string> error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::callback, "nothing was thrown"};
}

TEST(Agree, ThrowsTheLowestFailingRanksErrorOnAllRanks) {
  const Communicator& comm = mpi_session().comm();
  const int failing = comm.size() / 2;
  const auto [code, message] = error_of([&] {
    together(comm, "test", [&] {
      if (comm.rank() >= failing) throw Error(ErrorCode::corrupt, "broken on " + std::to_string(comm.rank()));
    });
  });
  EXPECT_EQ(code, ErrorCode::corrupt);
  const auto plain = "broken on " + std::to_string(failing);
  EXPECT_EQ(message, comm.size() == 1 ? plain : "rank " + std::to_string(failing) + ": " + plain);
}

TEST(Interrupt, EndsAWaitForOtherRanksWhichIsNotTakenUpAgain) {
  struct Interrupted {};
  const Communicator& comm = mpi_session().comm();
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  DeferredReduction sum(comm, Reduction::sum, std::chrono::minutes(10), "test");
  sum.set_quiet(false);
  if (comm.rank() > 0) return;
  sum.begin({1});
  {
    const internal::InterruptScope scope([] { throw Interrupted(); });
    EXPECT_THROW((void)sum.end(), Interrupted);
  }
  const auto [code, message] = error_of([&] { (void)sum.end(); });
  EXPECT_EQ(code, ErrorCode::timeout);
  EXPECT_THAT(message, HasSubstr("test: interrupted on this rank"));
}

TEST(Agree, ReturnsWhereNobodyFailed) {
  int ran = 0;
  EXPECT_NO_THROW(together(mpi_session().comm(), "test", [&] { ++ran; }));
  EXPECT_EQ(ran, 1);
}

TEST(Agree, PassesOnWhatIsNoError) {
  const Communicator& comm = mpi_session().comm();
  if (comm.size() == 1) {
    EXPECT_THROW(together(comm, "test", [] { throw std::logic_error("odd"); }), std::logic_error);
    return;
  }
  const auto [code, message] = error_of([&] {
    together(comm, "test", [&] {
      if (comm.rank() == 0) throw std::logic_error("odd");
    });
  });
  EXPECT_EQ(code, ErrorCode::callback);
  EXPECT_EQ(message, "rank 0: odd");
}

TEST(Collectives, BroadcastSumMinMaxAndGather) {
  const Communicator& comm = mpi_session().comm();
  const std::int64_t rank = comm.rank();
  const std::int64_t size = comm.size();
  const std::string long_text(100'000, 'x');
  EXPECT_EQ(broadcast(comm, rank == 0 ? long_text : "mine"), long_text);
  std::vector<std::int64_t> sums{rank, 1};
  sum(comm, sums);
  EXPECT_EQ(sums, (std::vector<std::int64_t>{size * (size - 1) / 2, size}));
  std::vector<std::int64_t> lowest{rank};
  min(comm, lowest);
  EXPECT_THAT(lowest, Each(0));
  std::vector<std::int64_t> highest{rank};
  max(comm, highest);
  EXPECT_THAT(highest, Each(size - 1));
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(gather(comm, rank), ranks);
}

TEST(Communicator, IsAWorldOfOneWithoutMpi) {
  const Communicator alone;
  EXPECT_EQ(alone.world(), World{});
  EXPECT_EQ(broadcast(alone, "x"), "x");
  EXPECT_EQ(gather(alone, 3), std::vector<std::int64_t>{3});
  EXPECT_EQ(world(mpi_session().comm().get()), mpi_session().world());
}

// NOLINTBEGIN(bugprone-use-after-move,hicpp-invalid-access-moved): what is tested

std::vector<std::function<void()>> calls_over(const Communicator& comm) {
  return {[&] { (void)comm.duplicate(); },
          [&] { together(comm, "test", [] { ADD_FAILURE() << "it began the work"; }); },
          [&] { agree(comm, "test", nullptr); },
          [&] { (void)broadcast(comm, "x"); },
          [&] { (void)gather(comm, 3); },
          [&] { (void)is_same(comm, "x"); },
          [&] { require_same(comm, "test", "x"); },
          [&] {
            std::vector<std::int64_t> values{3};
            sum(comm, values);
          },
          [&] { (void)data_parallel(comm, 0); },
          [&] { StopSignal stop(comm); },
          [&] { Nodes nodes(comm); },
          [&] { Catalog catalog(comm, "/"); },
          [&] { CheckpointDirectory directory(comm, "/nowhere"); },
          [&] { Loader loader(comm, nullptr); },
          [&] { StreamLoader loader(comm, nullptr); }};
}

TEST(Communicator, ThatWasMovedFromIsRefusedAndIsNoWorldOfOne) {
  Communicator from = mpi_session().comm().duplicate();
  const Communicator to = std::move(from);
  EXPECT_EQ(from.size(), 0);
  EXPECT_THROW(from.world().validate(), Error);
  test::expect_refused("a communicator", calls_over(from));
  Communicator alone;
  const Communicator still_alone = std::move(alone);
  test::expect_refused("a communicator", calls_over(alone));
  EXPECT_EQ(still_alone.duplicate().world(), World{});
  StopSignal stop(to);  // none was left behind
  EXPECT_FALSE(stop.requested());
}

TEST(Communicator, ThatWasAssignedElsewhereIsRefusedAndMayBeFilledAgain) {
  const World world = mpi_session().comm().world();
  Communicator from = mpi_session().comm().duplicate();
  Communicator to;
  to = std::move(from);
  EXPECT_EQ(to.world(), world);
  EXPECT_EQ(error_of([&] { (void)gather(from, 3); }).first, ErrorCode::invalid_argument);
  from = std::move(to);
  EXPECT_EQ(std::ssize(gather(from, 3)), world.size);
  Communicator& same = from;
  from = std::move(same);
  EXPECT_EQ(std::ssize(gather(from, 3)), world.size);
}

// NOLINTEND(bugprone-use-after-move,hicpp-invalid-access-moved)

TEST(Communicator, OfTheParentIsRefusedInAForkedChild) {
  std::optional<Communicator> comm = mpi_session().comm().duplicate();
  const std::string error = test::error_as_nobody([&] { (void)gather(*comm, 3); });
  EXPECT_THAT(error, ::testing::StartsWith("unsupported: use a communicator"));
  EXPECT_EQ(test::error_as_nobody([&] { comm.reset(); }), "");
  EXPECT_EQ(test::error_as_nobody([&] { (void)gather(Communicator(), 3); }), "");
  EXPECT_EQ(std::ssize(gather(*comm, 3)), comm->size());
}

void expect_refused(MPI_Comm comm, const std::string& why) {
  for (const auto& [code, message] :
       {error_of([&] { (void)world(comm); }), error_of([&] { const Communicator made(comm); })}) {
    EXPECT_EQ(code, ErrorCode::invalid_argument);
    EXPECT_THAT(message, HasSubstr(why));
  }
}

TEST(Communicator, IsNotMadeForARankThatTakesNoPart) {
  MPI_Comm none = MPI_COMM_WORLD;
  MPI_Comm_split(mpi_session().comm().get(), MPI_UNDEFINED, 0, &none);
  expect_refused(none, "it is MPI_COMM_NULL, which MPI_Comm_split gives for MPI_UNDEFINED");
}

TEST(Communicator, IsNotMadeOfAnIntercommunicator) {
  const Communicator& comm = mpi_session().comm();
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Comm_split(comm.get(), comm.rank() % 2, comm.rank(), &group);
  MPI_Intercomm_create(group, 0, comm.get(), 1 - comm.rank() % 2, 0, &between);
  expect_refused(between, "it is an intercommunicator; pass the communicator of one of its groups");
  MPI_Comm_free(&between);
  MPI_Comm_free(&group);
}

TEST(StopSignal, OnOneRankStopsAllAtTheSameStep) {
  const Communicator& comm = mpi_session().comm();
  for (const int signal : {SIGTERM, SIGUSR1}) {
    StopSignal stop(comm);
    std::int64_t step = 0;
    for (; step < 100 && !stop.requested(); ++step) {
      if (step == 7 && comm.rank() == comm.size() - 1) raise(signal);
    }
    EXPECT_EQ(step, 8);
    EXPECT_TRUE(stop.requested());
    EXPECT_THROW(StopSignal second(comm), Error);
  }
}

TEST(DataParallel, NumbersTheReplicasOfAPlaceInTheOrderOfTheirRanks) {
  const Communicator& comm = mpi_session().comm();
  const int data = comm.size() % 2 == 0 ? comm.size() / 2 : 1;
  const int inner = comm.size() / data;
  EXPECT_EQ(data_parallel(comm, comm.rank() / inner).world(),
            (World{.rank = comm.rank() / inner, .size = data, .replica = comm.rank() % inner}));
  EXPECT_EQ(data_parallel(comm, comm.rank() % data).world(),
            (World{.rank = comm.rank() % data, .size = data, .replica = comm.rank() / data}));
  EXPECT_EQ(data_parallel(comm, comm.rank()).world(), comm.world());
  const Communicator one_place = data_parallel(comm, 0);
  EXPECT_EQ(one_place.rank(), comm.rank());
  EXPECT_EQ(one_place.size(), comm.size());
  EXPECT_EQ(one_place.duplicate().world(), (World{.rank = 0, .size = 1, .replica = comm.rank()}));
}

TEST(DataParallel, IsRefusedWhereRanksAreNotSharedEqually) {
  const Communicator& comm = mpi_session().comm();
  const auto expect_refused = [&](int rank, const std::string& why) {
    const auto [code, message] = error_of([&] { (void)data_parallel(comm, rank); });
    EXPECT_EQ(code, ErrorCode::invalid_argument);
    EXPECT_THAT(message, HasSubstr(why));
  };
  expect_refused(comm.rank() + 1, "none of them has data-parallel rank 0, and 1 have rank 1");
  expect_refused(-comm.rank() - 1, fmt::format("data-parallel rank {} is below 0", -comm.size()));
  const bool is_last = comm.rank() == comm.size() - 1;
  expect_refused(is_last ? INT_MIN : comm.rank(), "data-parallel rank -2147483648 is below 0");
  expect_refused(
      is_last ? INT_MAX : comm.rank(),
      fmt::format("none of them has data-parallel rank {}, and 1 have rank 2147483647", comm.size() - 1));
  if (comm.size() == 1) return;
  expect_refused(2 * comm.rank(), "none of them has data-parallel rank 1, and 1 have rank 2");
  if (comm.size() > 2) {
    expect_refused(std::min(comm.rank(), 1),
                   fmt::format("1 of them have data-parallel rank 0, and {} have rank 1", comm.size() - 1));
  }
}

}  // namespace rota::test::collectives_test
