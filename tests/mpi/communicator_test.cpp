#include "all_of_ranks.hpp"
#include "rota/mpi.hpp"

namespace rota::test::mpi_communicator_test {

using mpi::handle_of;

TEST(MpiCommunicator, HasTheRanksOfItsHandle) {
  EXPECT_EQ(mpi::world(handle_of(everyone())), everyone().world());
  EXPECT_EQ(mpi::communicator(handle_of(everyone())).world(), everyone().world());
  EXPECT_EQ(handle_of(Communicator()), MPI_COMM_NULL);
}

void expect_refused(MPI_Comm comm, const std::string& why) {
  EXPECT_ERROR(mpi::world(comm), invalid_argument, {why});
  EXPECT_ERROR(mpi::communicator(comm), invalid_argument, {why});
}

TEST(MpiCommunicator, IsNotMadeForARankThatTakesNoPart) {
  MPI_Comm none = MPI_COMM_WORLD;
  MPI_Comm_split(handle_of(everyone()), MPI_UNDEFINED, 0, &none);
  expect_refused(none, "it is MPI_COMM_NULL, which MPI_Comm_split gives for MPI_UNDEFINED");
}

TEST(MpiCommunicator, HasNoNegativeDeadline) {
  const auto refused = is_error(invalid_argument, {"deadline is -0.005 s"});
  EXPECT_THAT(error_of([] { (void)mpi::communicator(MPI_COMM_WORLD, std::chrono::milliseconds(-5)); }),
              refused);
}

TEST(MpiCommunicator, IsNotMadeOfAnIntercommunicator) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Comm_split(handle_of(everyone()), everyone().rank() % 2, everyone().rank(), &group);
  MPI_Intercomm_create(group, 0, handle_of(everyone()), 1 - everyone().rank() % 2, 0, &between);
  expect_refused(between, "it is an intercommunicator; pass the communicator of one of its groups");
  MPI_Comm_free(&between);
  MPI_Comm_free(&group);
}

// MPI may number their ranks anew.
TEST(MpiCommunicator, OfARingOrAGridSavesAsOthersDo) {
  const SharedDirectory path;
  for (const int dimensions : {1, 2}) {
    std::array<int, 2> extents{0, dimensions == 1 ? 1 : 0};
    const std::array<int, 2> closed{1, 0};
    EXPECT_EQ(MPI_SUCCESS, MPI_Dims_create(everyone().size(), 2, extents.data()));
    MPI_Comm cartesian = MPI_COMM_NULL;
    EXPECT_EQ(MPI_SUCCESS, MPI_Cart_create(handle_of(everyone()), dimensions, extents.data(), closed.data(),
                                           1, &cartesian));
    const Communicator ranks = mpi::communicator(cartesian);
    CheckpointDirectory directory(ranks, path.path() / std::to_string(dimensions));
    for (const std::int64_t step : {1, 2}) {
      const Numbers own(3, ranks.rank());
      Snapshot state;
      state.tensor("ranks", {}, 3, own);
      directory.save(step, state);
      const auto newest = directory.latest();
      ASSERT_TRUE(newest);
      EXPECT_EQ(newest->info().step, step);
      const auto rows = newest->read<std::int64_t>("ranks");
      for (std::size_t row = 0; row < rows.size(); ++row) EXPECT_EQ(rows[row], row / 3);
    }
    MPI_Comm_free(&cartesian);
  }
}

}  // namespace rota::test::mpi_communicator_test
