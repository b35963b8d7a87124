#pragma once

// What the tests of checkpoints under mpirun share.

#include "checkpoint_fixture.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "test.hpp"

namespace rota::test {

/// All ranks share a directory, which is removed again.
class MpiCheckpointTest : public ::testing::Test {
 protected:
  MpiCheckpointTest() {
    path_ = rota::mpi::broadcast(comm(), rank() == 0 ? make_directory().string() : std::string());
  }
  ~MpiCheckpointTest() override {
    rota::mpi::agree(comm(), "end a test", nullptr);
    if (rank() == 0) fs::remove_all(path_);
  }

  static const rota::mpi::Communicator& comm() { return mpi_session().comm(); }
  static int rank() { return comm().rank(); }
  static int size() { return comm().size(); }

  /// As the environment says: CTest runs these tests with each writer.
  static rota::Writer writer() {
    return std::getenv("ROTA_TEST_WRITER") != nullptr ? rota::Writer::collective : rota::Writer::direct;
  }
  rota::CheckpointDirectory open(rota::CheckpointPolicy policy = {}) {
    policy.writer = writer();
    return {comm(), path_, policy};
  }

  /// The Error that all ranks throw from `work`; fails the test where it is not the same.
  static rota::Error same_error_of(const std::function<void()>& work) {
    const rota::Error error = thrown_error(work);
    EXPECT_EQ(rota::mpi::broadcast(comm(), std::string(error.what())), error.what());
    return error;
  }

  /// Names in the directory, looked at by all ranks once they are all here.
  std::vector<std::string> names() {
    rota::mpi::agree(comm(), "look at a directory", nullptr);
    std::vector<std::string> found = names_in(path_);
    rota::mpi::agree(comm(), "look at a directory", nullptr);
    return found;
  }

  fs::path path_;
};

/// This rank's share of `rows`, as even as can be.
inline rota::RowRange even_share(std::int64_t rows, const rota::World& world) {
  const std::int64_t first = rows * world.rank / world.size;
  return {first, rows * (world.rank + 1) / world.size - first};
}

}  // namespace rota::test
