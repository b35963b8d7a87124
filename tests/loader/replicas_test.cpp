// Processes that share a place see the same data, one of them writes, and how many they are may change.

#include "loader/ranks.hpp"

namespace rota::test::replicas_test {

constexpr std::int64_t kBatch = 24;
const LoaderOptions kOptions{
    .global_batch_size = kBatch, .shards = 10, .tail = Tail::drop, .epochs = 3, .workers = 1};

/// The global batch, told by the replicas number 0; all replicas must have its slices.
Numbers global(const World& world, const Batch& batch) {
  Numbers sum(kBatch, 0);
  const auto first = static_cast<std::size_t>(share(kBatch, world.rank, world.size));
  const auto mine = ids_of(batch);
  if (world.replica == 0) std::ranges::copy(mine, sum.begin() + static_cast<std::ptrdiff_t>(first));
  everyone().sum(std::span(sum));
  EXPECT_THAT(mine, ElementsAreArray(std::span(sum).subspan(first, mine.size())));
  return sum;
}

/// Divisors of the number of ranks, as numbers of replicas.
std::vector<int> replications() {
  std::vector<int> all;
  for (int k = 1; k <= everyone().size(); ++k) {
    if (everyone().size() % k == 0) all.push_back(k);
  }
  return all;
}

Communicator place(int replicas, bool neighbours) {
  return everyone().data_parallel(neighbours ? everyone().rank() / replicas
                                             : everyone().rank() % (everyone().size() / replicas));
}

TEST(Replicas, SeeTheSameDataAndAnyReplicationGoesOnInTheSameOrder) {
  const auto source = counting(200);
  std::vector<Numbers> expected;
  Loader alone(source, kOptions, World{});
  while (const auto batch = alone.next()) expected.push_back(ids_of(*batch));

  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  std::vector<Numbers> seen;
  std::mt19937 random(7);
  for (bool is_over = false; !is_over;) {
    const int replicas = replications()[random() % replications().size()];
    const Communicator data = place(replicas, random() % 2 == 0);
    const World world = data.world();
    Loader loader(data, source, kOptions);
    if (const auto checkpoint = checkpoints.latest()) restore(loader, *checkpoint);
    for (auto steps = random() % 4; steps > 0 && !is_over; --steps) {
      const auto batch = loader.next();
      is_over = !batch;
      if (batch) seen.push_back(global(world, *batch));
    }
    checkpoints.save_all(loader.position().step, loader);
  }
  EXPECT_EQ(seen, expected);
}

TEST(Replicas, AreRefusedWhereTwoSayThatTheyWrite) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  World world = place(everyone().size(), true).world();
  world.replica = 0;
  Loader loader(counting(200), kOptions, world);
  EXPECT_THROW(checkpoints.save_all(0, loader), Error);
}

TEST(World, ThatIsLeftOutIsAnErrorUnlessTheProcessIsAlone) {
  if (are_threads()) GTEST_SKIP() << "their process is alone";
  const int ranks = everyone().size();
  const auto source = counting(10);
  const Mixture mixture{.datasets = {{.source = source}}};
  const std::vector<std::function<Loader()>> made{[&] { return Loader(source, {}); },
                                                  [&] { return Loader(mixture, {}); }};
  for (const auto& make : made) {
    if (ranks == 1) {
      EXPECT_NO_THROW(make());
    } else {
      EXPECT_ERROR(make(), invalid_argument,
                   {fmt::format("MPI runs {} ranks", ranks), "pass the communicator first, or World{} last"});
    }
  }
  EXPECT_EQ((*Loader(source, {}, World{}).next()).size(), 10);
  EXPECT_EQ((*Loader(mixture, {}, World{}).next()).size(), 10);
}

}  // namespace rota::test::replicas_test
