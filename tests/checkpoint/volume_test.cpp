// A tensor of more elements and bytes than a signed integer of 32 bits can count.

#include "ranks_fixture.hpp"

namespace rota::test::volume_test {

constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 10;

// Bytes [first, first + count), of which those from 8 * i on are a number of i.
Bytes make_bytes(std::int64_t first, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::int64_t at = first; at < first + count;) {
    const std::uint64_t x = static_cast<std::uint64_t>(at / 8) * 0x9E3779B97F4A7C15U;
    const std::uint64_t word = x ^ (x >> 29);
    const std::int64_t taken = std::min(8 - at % 8, first + count - at);
    std::memcpy(bytes.data() + (at - first), reinterpret_cast<const std::byte*>(&word) + at % 8,
                static_cast<std::size_t>(taken));
    at += taken;
  }
  return bytes;
}

// Two ranks save, and three restore.
class LargeTensorCampaign : public RanksCheckpointTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(size(), 3);
    const bool has_space = fs::space(path_).available >= std::uintmax_t{6} << 30;
    if (!ranks::broadcast(comm(), has_space)) GTEST_SKIP() << "there is not enough disk";
  }

  // `shares` are those of ranks 0 and 1.
  void expect_kept(std::int64_t rows, std::int64_t columns, std::array<std::vector<RowRange>, 2> shares) {
    {
      const auto savers = part_of(comm(), [&](int rank) { return rank < 2; });
      if (savers) save(*savers, columns, shares.at(static_cast<std::size_t>(rank())));
    }
    ranks::agree(comm(), "take turns", nullptr);
    const auto newest = open().latest();  // verifies all of it, by extents and by rows
    ASSERT_TRUE(newest);
    ASSERT_THAT(newest->tensor("large").shape, ElementsAre(rows, columns));
    const RowRange share = even_share(rows, comm().world());
    const std::int64_t end = share.first + share.count;
    for (const RowRange some : {RowRange{share.first, share.count / 2}, {end - 1, 1}}) {
      if (share.count == 0) continue;
      EXPECT_TRUE(read_rows(*newest, "large", some, static_cast<std::size_t>(columns)) ==
                  make_bytes(some.first * columns, some.count * columns))
          << "rows from " << some.first << " on differ";
    }
  }

 private:
  void save(const Communicator& savers, std::int64_t columns, const std::vector<RowRange>& share) {
    Bytes bytes;
    for (const auto& [first, count] : share) {
      const Bytes part = make_bytes(first * columns, count * columns);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    Snapshot snapshot;
    snapshot.tensor("large", DType::uint8, {columns}, share, std::move(bytes));
    CheckpointDirectory(savers, path_).save(1, snapshot);
  }
};

// Rows of an odd length, of which there are so many that they hold a little more.
constexpr std::int64_t kColumns = 8191;
constexpr std::int64_t kRows = kElements / kColumns + 1;

TEST_F(LargeTensorCampaign, OfOneRowIsKept) { expect_kept(1, kElements, {{{{0, 1}}, {}}}); }

TEST_F(LargeTensorCampaign, OfManyRowsIsKept) {
  expect_kept(kRows, kColumns, {{{{0, kRows - 7}}, {{kRows - 7, 7}}}});
}

TEST_F(LargeTensorCampaign, OfRowsThatOneRankHoldsAndTwoWriteIsKept) {
  expect_kept(kRows, kColumns, {{{{1, 1}}, {{0, 1}, {2, kRows - 2}}}});
}

}  // namespace rota::test::volume_test
