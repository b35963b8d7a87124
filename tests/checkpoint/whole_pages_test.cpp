// Where clients write whole pages, as those of NFS may, rank 0 writes for all, and nothing is lost.

#include "nfs_client.hpp"
#include "ranks_fixture.hpp"

namespace rota::test::whole_pages_test {

constexpr std::size_t kRowBytes = 13;  // so that ranks' rows end anywhere in a page

class WholePages : public RanksCheckpointTest {
 protected:
  CheckpointDirectory open_nfs() { return CheckpointDirectoryAccess::open(comm(), path_, {}, client_); }

  // Of each tensor, by name, the rows that this rank holds.
  std::map<std::string, std::vector<RowRange>> shares() const {
    std::map<std::string, std::vector<RowRange>> shares;
    shares["model/even"] = {even_share(100'000 * size(), comm().world())};  // more than 1 MiB a rank
    shares["model/last"] = {{0, rank() == last() ? rows_of_last_ : 0}};     // the others have none
    shares["model/reversed"] = {{1003 * (last() - rank()), 1003}};
    shares["model/scattered"] = {};
    for (std::int64_t row = rank(); row < 1999; row += size()) shares["model/scattered"].push_back({row, 1});
    return shares;
  }
  Snapshot snapshot() const {
    Snapshot snapshot;
    for (const auto& [name, ranges] : shares()) {
      snapshot.tensor(name, DType::uint8, {kRowBytes}, ranges, make_rows(ranges, kRowBytes));
    }
    snapshot.blob("state", std::string(5000, 'x'));
    snapshot.rank_blob("rng", fmt::format("of rank {}", rank()));
    return snapshot;
  }

  // As all see it who look into the file.
  void expect_saved(std::int64_t step) {
    const Checkpoint newest = open().latest().value();
    EXPECT_EQ(newest.info().step, step);
    for (const auto& [name, ranges] : shares()) {
      for (const RowRange& some : ranges) {
        EXPECT_TRUE(read_rows(newest, name, some, kRowBytes) == make_rows(some.first, some.count, kRowBytes))
            << name << ", from row " << some.first << " on";
      }
    }
    EXPECT_EQ(newest.blob("state"), std::string(5000, 'x'));
    EXPECT_EQ(newest.rank_blob("rng", comm().world()), fmt::format("of rank {}", rank()));
  }

  std::int64_t rows_of_last_ = 1001;
  NfsClient client_;
};

TEST_F(WholePages, AreWrittenByRankZeroForAllAndTheSaveIsGood) {
  {
    auto directory = open_nfs();
    EXPECT_EQ(directory.save(1, snapshot()).info.step, 1);
  }
  expect_saved(1);
  {
    auto directory = open_nfs();
    directory.save_async(2, snapshot());
    EXPECT_EQ(directory.wait()->info.step, 2);
  }
  expect_saved(2);
  EXPECT_EQ(client_.writes() > 0, rank() == 0);
}

// So the test above would see it.
TEST_F(WholePages, WouldUndoWhatOtherRanksWrote) {
  if (size() == 1) GTEST_SKIP() << "one rank has no others";
  client_.hide();
  const fs::path file = open_nfs().save(1, snapshot()).info.path;
  const Verification found = verify_checkpoint(file);
  EXPECT_THAT(found.damage,
              Contains(::testing::Field(&Verification::Damage::part, Verification::Damage::Part::bytes)));
  auto directory = open();
  EXPECT_ERROR_OF_ALL(directory.latest(), corrupt, {"none is good"});
}

TEST_F(WholePages, MoreThanGoesToRankZeroAtATimeIsSaved) {
  if (size() != 7) GTEST_SKIP() << "takes 50 MB: with seven ranks";
  rows_of_last_ = (38 << 20) / static_cast<std::int64_t>(kRowBytes);
  open_nfs().save(1, snapshot());
  expect_saved(1);
}

TEST_F(WholePages, WhatRankZeroCannotWriteFailsTheSaveOnAllAndLeavesNothing) {
  {
    auto directory = open_nfs();
    directory.save(1, snapshot());
    client_.fail_write(client_.writes() * 3 / 4);  // where there are others, one of theirs
    EXPECT_ERROR_OF_ALL(directory.save(2, snapshot()), io, {from(0) + "write "});
    EXPECT_THAT(names(), ElementsAre("checkpoint-000000000000.h5"));
    client_.fail_write();
    EXPECT_EQ(directory.save(3, snapshot()).info.serial, 1);
  }
  expect_saved(3);
}

}  // namespace rota::test::whole_pages_test
