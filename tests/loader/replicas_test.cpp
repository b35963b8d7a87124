// Processes that share a place see the same data, one of them writes, and how many they are may change.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::replicas_test {

constexpr std::int64_t kBatch = 24;
const LoaderOptions kOptions{
    .global_batch_size = kBatch, .shards = 10, .tail = Tail::drop, .epochs = 3, .workers = 1};

std::vector<std::int64_t> ids_of(const Batch& batch) {
  std::vector<std::int64_t> ids;
  for (const SampleId id : batch.ids()) ids.push_back(id.value);
  return ids;
}

/// The global batch, told by the replicas number 0; all replicas must have its slices.
std::vector<std::int64_t> global(const mpi::Communicator& comm, const World& world, const Batch& batch) {
  std::vector<std::int64_t> sum(kBatch, 0);
  const auto first = static_cast<std::size_t>(share(kBatch, world.rank, world.size));
  const auto mine = ids_of(batch);
  if (world.replica == 0) std::ranges::copy(mine, sum.begin() + static_cast<std::ptrdiff_t>(first));
  mpi::sum(comm, std::span(sum));
  EXPECT_THAT(mine, ::testing::ElementsAreArray(std::span(sum).subspan(first, mine.size())));
  return sum;
}

/// Divisors of the number of ranks, as numbers of replicas.
std::vector<int> replications() {
  std::vector<int> all;
  for (int k = 1; k <= mpi_session().comm().size(); ++k) {
    if (mpi_session().comm().size() % k == 0) all.push_back(k);
  }
  return all;
}

mpi::Communicator place(const mpi::Communicator& comm, int replicas, bool neighbours) {
  return mpi::data_parallel(comm,
                            neighbours ? comm.rank() / replicas : comm.rank() % (comm.size() / replicas));
}

std::string shared_directory(const std::unique_ptr<test::TemporaryDirectory>& owner) {
  return mpi::broadcast(mpi_session().comm(), owner ? owner->path().string() : "");
}

std::unique_ptr<test::TemporaryDirectory> directory_of_rank_0() {
  return mpi_session().comm().rank() == 0 ? std::make_unique<test::TemporaryDirectory>() : nullptr;
}

TEST(Replicas, SeeTheSameDataAndAnyReplicationGoesOnInTheSameOrder) {
  const mpi::Communicator& comm = mpi_session().comm();
  const auto source = counting(200);
  std::vector<std::vector<std::int64_t>> expected;
  Loader alone(source, kOptions, World{});
  while (const auto batch = alone.next()) expected.push_back(ids_of(*batch));

  const auto owner = directory_of_rank_0();
  CheckpointDirectory checkpoints(comm, shared_directory(owner));
  std::vector<std::vector<std::int64_t>> seen;
  std::mt19937 random(7);
  for (bool is_over = false; !is_over;) {
    const int replicas = replications()[random() % replications().size()];
    const mpi::Communicator data = place(comm, replicas, random() % 2 == 0);
    const World world = data.world();
    Loader loader(data, source, kOptions);
    if (const auto checkpoint = checkpoints.latest()) restore(loader, *checkpoint);
    for (auto steps = random() % 4; steps > 0 && !is_over; --steps) {
      const auto batch = loader.next();
      is_over = !batch;
      if (batch) seen.push_back(global(comm, world, *batch));
    }
    checkpoints.save_all(loader.position().step, loader);
  }
  EXPECT_EQ(seen, expected);
}

TEST(Replicas, AreRefusedWhereTwoSayThatTheyWrite) {
  const mpi::Communicator& comm = mpi_session().comm();
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  const auto owner = directory_of_rank_0();
  CheckpointDirectory checkpoints(comm, shared_directory(owner));
  World world = place(comm, comm.size(), true).world();
  world.replica = 0;
  Loader loader(counting(200), kOptions, world);
  EXPECT_THROW(checkpoints.save_all(0, loader), Error);
}

TEST(World, ThatIsLeftOutIsAnErrorUnlessTheProcessIsAlone) {
  const int ranks = mpi_session().comm().size();
  const auto source = counting(10);
  const Mixture mixture{.datasets = {{.source = source}}};
  const std::vector<std::function<Loader()>> made{[&] { return Loader(source, {}); },
                                                  [&] { return Loader(mixture, {}); }};
  for (const auto& make : made) {
    try {
      make();
      EXPECT_EQ(ranks, 1);
    } catch (const Error& error) {
      EXPECT_GT(ranks, 1);
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("MPI runs " + std::to_string(ranks) + " ranks"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("pass the communicator first, or World{} last"));
    }
  }
  EXPECT_EQ((*Loader(source, {}, World{}).next()).size(), 10);
  EXPECT_EQ((*Loader(mixture, {}, World{}).next()).size(), 10);
}

}  // namespace rota::test::replicas_test
