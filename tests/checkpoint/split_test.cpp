// However rows were divided among ranks that save, any other division reads the same.

#include "ranks_fixture.hpp"
#include "saved_state.hpp"

namespace rota::test::split_test {

constexpr std::size_t kRowBytes = 24;

class Split : public RanksCheckpointTest {
 protected:
  // Saves tensor "t" of which this rank holds `ranges`.
  void save(const std::vector<RowRange>& ranges) {
    const Bytes data = make_rows(ranges, kRowBytes);
    Snapshot snapshot;
    snapshot.tensor("t", DType::int64, {3}, ranges, data);
    open().save(1, snapshot);
  }
  void expect_rows(std::int64_t rows) {
    const Checkpoint checkpoint = open().latest().value();
    EXPECT_EQ(checkpoint.tensor("t").rows(), rows);
    for (const RowRange& some : {even_share(rows, comm().world()), RowRange{0, rows}}) {
      EXPECT_EQ(read_rows(checkpoint, "t", some, kRowBytes), make_rows(some.first, some.count, kRowBytes));
    }
  }
  void expect_refused(const std::vector<RowRange>& ranges, const char* why) {
    EXPECT_ERROR_OF_ALL(save(ranges), invalid_argument, {why});
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
  open().save(1, snapshot);
  expect_rows(total);
}

TEST_F(Split, LargeSharesSpanManyExtents) {
  const std::int64_t rows = 200'000;
  save({even_share(rows, comm().world())});
  expect_rows(rows);
}

TEST_F(Split, RowsInRoundRobinAreMovedToTheirPlaces) {
  for (const std::int64_t rows : {0, 1, 5, 1000}) {
    std::vector<RowRange> ranges;
    for (std::int64_t row = rank(); row < rows; row += size()) ranges.push_back({row, 1});
    save(ranges);
    expect_rows(rows);
  }
}

TEST_F(Split, RangesMayComeInAnyOrderOfRankAndMemory) {
  const std::int64_t rows = 20 * size();
  const std::int64_t mine = 20 * (last() - rank());
  save({{mine, 20}});
  expect_rows(rows);
  save({{mine + 15, 5}, {mine, 10}, {mine + 7, 0}, {mine + 10, 5}});
  expect_rows(rows);
}

TEST_F(Split, OneRankMayHoldAllRows) {
  std::vector<RowRange> all;
  if (rank() == last()) all = {{50, 50}, {0, 50}};
  save(all);
  expect_rows(100);
}

TEST_F(Split, ARowHeldTwiceIsAnErrorOnAllRanks) {
  save({even_share(10, comm().world())});
  std::vector<RowRange> scattered{{2 * rank(), 1}, {2 * rank() + 1, 1}};
  if (rank() == last()) scattered = {{0, 1}, {2 * rank() + 1, 1}};
  if (size() > 1) expect_refused(scattered, "row 0 is held by two ranges");
  expect_refused({{0, 3}, {2, 1}}, "by two ranges");
  expect_rows(10);
  EXPECT_THAT(names(), SizeIs(1));
}

TEST_F(Split, AMissingRowIsAnErrorOnAllRanks) {
  expect_refused({{2 * rank() + 1, 1}}, "hold every row once");
  expect_refused({{0, 1}, {1000, 1}}, "holds row 1000");
  EXPECT_THAT(names(), IsEmpty());
}

constexpr std::int64_t kShards = 37;

// As a loader does: a share of the cursors, a blob of the job, and one of each rank.
void save_in_world(const Communicator& world, const fs::path& path) {
  const RowRange share = even_share(kShards, world.world());
  Snapshot snapshot;
  snapshot.tensor("loader/main/cursors", DType::int64, {2}, share.count,
                  make_rows(share.first, share.count, 16));
  snapshot.blob("loader/main/state", "seed 7");
  snapshot.rank_blob("rng", "rng of " + std::to_string(world.rank()));
  CheckpointDirectory(world, path).save(world.size(), snapshot);
}

void expect_in_world(const Communicator& world, const fs::path& path, int saved_by) {
  const auto checkpoint = *CheckpointDirectory(world, path).latest();
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
    const auto saving = part_of(comm(), [&](int rank) { return rank < savers; });
    if (saving) save_in_world(*saving, path_);
    for (int readers = 1; readers <= size(); ++readers) {
      ranks::agree(comm(), "take turns", nullptr);
      const auto reading = part_of(comm(), [&](int rank) { return rank < readers; });
      if (reading) expect_in_world(*reading, path_, savers);
      ranks::agree(comm(), "take turns", nullptr);
    }
  }
}

}  // namespace rota::test::split_test
