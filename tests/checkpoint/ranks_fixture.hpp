#pragma once

// What the tests of checkpoints under mpirun share.

#include <pthread.h>

#include "all_of_ranks.hpp"
#include "checkpoint_fixture.hpp"
#include "faulty_file_system.hpp"
#include "ranks/collectives.hpp"

namespace rota::test {

/// This rank's share of `rows`, as even as can be.
inline RowRange even_share(std::int64_t rows, const World& world) {
  const std::int64_t first = rows * world.rank / world.size;
  return {first, rows * (world.rank + 1) / world.size - first};
}

/// A state of which each rank holds its share of the rows, all of one value.
struct Weights {
  static constexpr std::int64_t kRows = 50'000;

  explicit Weights(const World& world)
      : share(even_share(kRows, world)), values(static_cast<std::size_t>(2 * share.count)) {}

  void set(double value) { std::ranges::fill(values, value); }
  void save(Snapshot& snapshot) const {
    if (is_broken) throw std::runtime_error("the weights are not numbers");
    snapshot.tensor("weights", {2}, share.count, values);
  }
  void restore(const Checkpoint& checkpoint) {
    if (is_broken) throw std::runtime_error("the weights do not fit");
    values = checkpoint.read<double>("weights", share);
  }

  RowRange share;
  std::vector<double> values;
  bool is_broken = false;
};

/// All ranks share a directory, which is removed again.
class RanksCheckpointTest : public Test {
 protected:
  RanksCheckpointTest() {
    if (rank() == 0) directory_.emplace();
    path_ = ranks::broadcast(comm(), directory_ ? directory_->path().string() : "");
  }
  ~RanksCheckpointTest() override { ranks::agree(comm(), "end a test", nullptr); }

  static const Communicator& comm() { return everyone(); }
  static int rank() { return comm().rank(); }
  static int size() { return comm().size(); }
  static int last() { return size() - 1; }
  /// What heads an error of one of several ranks.
  static std::string from(int failed) { return size() > 1 ? fmt::format("rank {}: ", failed) : ""; }

  CheckpointDirectory open(const CheckpointPolicy& policy = {}) { return {comm(), path_, policy}; }

  /// On a file system whose calls fail as a test says.
  CheckpointDirectory open_faulty() { return CheckpointDirectoryAccess::open(comm(), path_, {}, system_); }

  /// Weights that are all `step`, whose newest checkpoint is whole on every rank.
  SaveReport save(CheckpointDirectory& directory, int step) {
    weights_.set(step);
    return directory.save_all(step, weights_);
  }
  static void expect_latest(CheckpointDirectory& directory, int step) {
    const auto checkpoint = directory.latest();
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(checkpoint->info().step, step);
    EXPECT_EQ(checkpoint->read<double>("weights"), std::vector<double>(2 * Weights::kRows, step));
  }

  /// Names in the directory, looked at by all ranks once they are all here.
  std::vector<std::string> names() {
    ranks::agree(comm(), "look at a directory", nullptr);
    std::vector<std::string> found = names_in(path_);
    ranks::agree(comm(), "look at a directory", nullptr);
    return found;
  }

  std::optional<TemporaryDirectory> directory_;
  fs::path path_;
  FaultyFileSystem system_;
  Weights weights_{comm().world()};
};

/// As long as it lives no thread can be started: each would get a stack larger than there are addresses.
class NoThreads {
 public:
  NoThreads() {
    constexpr std::size_t kStackBytes = std::size_t{1} << 50;
    pthread_getattr_default_np(&before_);
    pthread_attr_t none = before_;
    pthread_attr_setstacksize(&none, kStackBytes);
    pthread_setattr_default_np(&none);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace rota::test
