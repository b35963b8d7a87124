// However rows were divided among ranks that save, any other division reads the same.

#include "mpi/collectives.hpp"
#include "mpi_fixture.hpp"
#include "test.hpp"

namespace rota::test::split_test {

using rota::DType;
using rota::ErrorCode;
using rota::RowRange;
using rota::Snapshot;
using rota::test::Bytes;
using rota::test::even_share;
using rota::test::IsError;
using rota::test::make_rows;
using rota::test::read_rows;

constexpr std::size_t kRowBytes = 24;

class Split : public rota::test::MpiCheckpointTest {
 protected:
  // Saves tensor "t" of which this rank holds `ranges`.
  void save(rota::CheckpointDirectory& directory, const std::vector<RowRange>& ranges) {
    Bytes data;
    for (const RowRange& range : ranges) {
      const Bytes rows = make_rows(range.first, range.count, kRowBytes);
      data.insert(data.end(), rows.begin(), rows.end());
    }
    Snapshot snapshot;
    snapshot.tensor("t", DType::int64, {3}, ranges, data);
    directory.save(1, snapshot);
  }

  static void expect_rows(const rota::Checkpoint& checkpoint, std::int64_t rows) {
    EXPECT_EQ(checkpoint.tensor("t").rows(), rows);
    const RowRange share = even_share(rows, comm().world());
    EXPECT_EQ(read_rows(checkpoint, "t", share, kRowBytes), make_rows(share.first, share.count, kRowBytes));
    EXPECT_EQ(read_rows(checkpoint, "t", {0, rows}, kRowBytes), make_rows(0, rows, kRowBytes));
  }
};

TEST_F(Split, UnevenSharesSomeOfThemEmptyFollowOneAnother) {
  // Rank r holds 0, 3, 6, 9, 0, 3, 6 ... rows.
  const auto rows_of = [](int r) { return std::int64_t{3} * (r % 4); };
  std::int64_t first = 0;
  std::int64_t total = 0;
  for (int r = 0; r < size(); ++r) {
    if (r < rank()) first += rows_of(r);
    total += rows_of(r);
  }
  Snapshot snapshot;
  snapshot.tensor("t", DType::int64, {3}, rows_of(rank()), make_rows(first, rows_of(rank()), kRowBytes));
  auto directory = open();
  directory.save(1, snapshot);
  expect_rows(*directory.latest(), total);
}

TEST_F(Split, LargeSharesSpanManyExtents) {
  const std::int64_t rows = 200'000;
  auto directory = open();
  save(directory, {even_share(rows, comm().world())});
  expect_rows(*directory.latest(), rows);
}

TEST_F(Split, RowsInRoundRobinAreMovedToTheirPlaces) {
  for (const std::int64_t rows : {0, 1, 5, 1000}) {
    std::vector<RowRange> ranges;
    for (std::int64_t row = rank(); row < rows; row += size()) ranges.push_back({row, 1});
    auto directory = open();
    save(directory, ranges);
    expect_rows(*directory.latest(), rows);
  }
}

TEST_F(Split, RangesMayComeInAnyOrderOfRankAndMemory) {
  const std::int64_t rows = 20 * size();
  const std::int64_t last = 20 * (size() - 1 - rank());
  auto directory = open();
  save(directory, {{last, 20}});
  expect_rows(*directory.latest(), rows);
  save(directory, {{last + 15, 5}, {last, 10}, {last + 10, 5}});
  expect_rows(*directory.latest(), rows);
}

TEST_F(Split, OneRankMayHoldAllRows) {
  auto directory = open();
  std::vector<RowRange> all;
  if (rank() == size() - 1) all = {{50, 50}, {0, 50}};
  save(directory, all);
  expect_rows(*directory.latest(), 100);
}

TEST_F(Split, ARowHeldTwiceIsAnErrorOnAllRanks) {
  auto directory = open();
  save(directory, {even_share(10, comm().world())});
  std::vector<RowRange> scattered{{2 * rank(), 1}, {2 * rank() + 1, 1}};
  if (rank() == size() - 1) scattered = {{0, 1}, {2 * rank() + 1, 1}};
  if (size() > 1) {
    EXPECT_THAT(same_error_of([&] { save(directory, scattered); }),
                IsError(ErrorCode::invalid_argument, "row 0 is held by two ranges"));
  }
  EXPECT_THAT(same_error_of([&] {
                save(directory, {{0, 3}, {2, 1}});
              }),
              IsError(ErrorCode::invalid_argument, "by two ranges"));
  expect_rows(*directory.latest(), 10);
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(Split, AMissingRowIsAnErrorOnAllRanks) {
  auto directory = open();
  EXPECT_THAT(same_error_of([&] {
                save(directory, {{2 * rank() + 1, 1}});
              }),
              IsError(ErrorCode::invalid_argument, "hold every row once"));
  EXPECT_THAT(same_error_of([&] {
                save(directory, {{0, 1}, {1000, 1}});
              }),
              IsError(ErrorCode::invalid_argument, "holds row 1000"));
  EXPECT_TRUE(names().empty());
}

// The members of a smaller world, as a communicator of their own.
class SubWorld {
 public:
  SubWorld(const rota::mpi::Communicator& comm, int size) {
    MPI_Comm_split(comm.get(), comm.rank() < size ? 0 : MPI_UNDEFINED, comm.rank(), &handle_);
    if (handle_ != MPI_COMM_NULL) comm_ = rota::mpi::Communicator(handle_);
  }
  ~SubWorld() {
    if (handle_ != MPI_COMM_NULL) MPI_Comm_free(&handle_);
  }
  SubWorld(const SubWorld&) = delete;
  SubWorld& operator=(const SubWorld&) = delete;

  [[nodiscard]] bool has_this_rank() const { return handle_ != MPI_COMM_NULL; }
  [[nodiscard]] const rota::mpi::Communicator& comm() const { return comm_; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
  rota::mpi::Communicator comm_;
};

constexpr std::int64_t kShards = 37;

// As a loader does: a share of the cursors, a blob of the job, and one of each rank.
void save_in_world(const rota::mpi::Communicator& world, const std::filesystem::path& path) {
  const RowRange share = even_share(kShards, world.world());
  Snapshot snapshot;
  snapshot.tensor("loader/main/cursors", DType::int64, {2}, share.count,
                  make_rows(share.first, share.count, 16));
  snapshot.blob("loader/main/state", "seed 7");
  snapshot.rank_blob("rng", "rng of " + std::to_string(world.rank()));
  rota::CheckpointDirectory(world, path).save(world.size(), snapshot);
}

void expect_in_world(const rota::mpi::Communicator& world, const std::filesystem::path& path, int saved_by) {
  const auto checkpoint = *rota::CheckpointDirectory(world, path).latest();
  EXPECT_EQ(checkpoint.info().world_size, saved_by);
  const RowRange share = even_share(kShards, world.world());
  EXPECT_EQ(read_rows(checkpoint, "loader/main/cursors", share, 16), make_rows(share.first, share.count, 16));
  EXPECT_EQ(checkpoint.blob("loader/main/state"), "seed 7");
  const auto own = checkpoint.rank_blob("rng", world.world());
  EXPECT_EQ(own.has_value(), saved_by == world.size());
  EXPECT_EQ(own.value_or("rng of " + std::to_string(world.rank())), "rng of " + std::to_string(world.rank()));
  EXPECT_EQ(checkpoint.blobs().size(), 1U + static_cast<std::size_t>(saved_by));
}

TEST_F(Split, WhatAnyWorldSavedAnyOtherWorldReads) {
  for (int savers = 1; savers <= size(); ++savers) {
    const SubWorld saving(comm(), savers);
    if (saving.has_this_rank()) save_in_world(saving.comm(), path_);
    for (int readers = 1; readers <= size(); ++readers) {
      rota::mpi::agree(comm(), "take turns", nullptr);
      const SubWorld reading(comm(), readers);
      if (reading.has_this_rank()) expect_in_world(reading.comm(), path_, savers);
      rota::mpi::agree(comm(), "take turns", nullptr);
    }
  }
}

}  // namespace rota::test::split_test
