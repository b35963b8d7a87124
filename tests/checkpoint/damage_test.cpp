// Damage is found before HDF5 sees it, and a directory falls back to an older checkpoint.

#include "checkpoint_fixture.hpp"
#include "commit_page.hpp"
#include "digest.hpp"
#include "file_system.hpp"
#include "reader.hpp"
#include "test.hpp"
#include "values/bytes.hpp"

namespace rota::test::damage_test {

using rota::DType;
using rota::ErrorCode;
using rota::Snapshot;
using rota::test::IsError;
using rota::test::make_rows;
using rota::test::read_file;
using rota::test::thrown_error;
using rota::test::write_file;
using rota::test::fs::path;

Snapshot small_snapshot(std::int64_t step) {
  Snapshot snapshot;
  snapshot.tensor("w", DType::int32, {2}, 40, make_rows(step, 40, 8));
  snapshot.tensor("loader/main/cursors", DType::int64, {2}, 16, make_rows(step, 16, 16));
  snapshot.blob("state", "step " + std::to_string(step));
  return snapshot;
}

// Only the steps before HDF5 is asked.
void verify(const path& file) {
  const rota::CheckpointReader reader(rota::checkpoint::posix_file_system(), file);
  static_cast<void>(reader.verify_extents({}));
}

class Damage : public rota::test::CheckpointTest {
 protected:
  path save(rota::CheckpointDirectory& directory, std::int64_t step) {
    return directory.save(step, small_snapshot(step)).info.path;
  }
  path save() {
    auto directory = open();
    return save(directory, 1);
  }
  // Sets the version and makes the prefix's checksum right again.
  void set_version(const path& file, std::uint32_t version) {
    std::string bytes = read_file(file);
    const auto page = std::as_writable_bytes(std::span(bytes));
    rota::internal::store(page, 8, version);
    rota::internal::store(page, 32, rota::checkpoint::short_digest(page.first(32)));
    write_file(file, bytes);
  }
};

void flip(const path& file, std::size_t byte, unsigned bit) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(byte));
  const auto value = static_cast<char>(stream.get() ^ (1 << bit));
  stream.seekp(static_cast<std::streamoff>(byte));
  stream.put(value);
}

TEST_F(Damage, ASizeThatIsNotThePagesIsNamed) {
  const path file = save();
  const std::string good = read_file(file);
  std::filesystem::resize_file(file, good.size() - 1);
  EXPECT_THAT(thrown_error([&] { verify(file); }), IsError(ErrorCode::corrupt, "its commit page says"));
  write_file(file, good + "x");
  EXPECT_THAT(thrown_error([&] { verify(file); }), IsError(ErrorCode::corrupt, "its commit page says"));
  write_file(file, good.substr(0, 4095));
  EXPECT_THAT(thrown_error([&] { verify(file); }), IsError(ErrorCode::corrupt, "less than a commit page"));
}

TEST_F(Damage, ANewerFormatIsRefusedWithBothNumbers) {
  const path file = save();
  set_version(file, 7);
  const auto error = thrown_error([&] { rota::open_checkpoint(file); });
  EXPECT_THAT(error, IsError(ErrorCode::unsupported, "version 7"));
  EXPECT_THAT(error, IsError(ErrorCode::unsupported, "up to version 1"));
  EXPECT_THAT(thrown_error([&] { (void)open().latest(); }), IsError(ErrorCode::unsupported, "version 7"));
}

TEST_F(Damage, AFileOfANewerFormatIsNeverDropped) {
  auto directory = open({.keep_last = 1});
  const path newer = save(directory, 1);
  set_version(newer, 7);
  for (int step = 2; step < 5; ++step) save(directory, step);
  EXPECT_THAT(rota::test::names_in(path_), SizeIs(2));
  EXPECT_TRUE(std::filesystem::exists(newer));
}

TEST_F(Damage, AnUnknownRequiredFeatureIsRefused) {
  const path file = save();
  std::string bytes = read_file(file);
  const auto page = std::as_writable_bytes(std::span(bytes));
  rota::internal::store(page, 16, std::uint64_t{4});
  rota::internal::store(page, 32, rota::checkpoint::short_digest(page.first(32)));
  write_file(file, bytes);
  EXPECT_THAT(thrown_error([&] { rota::open_checkpoint(file); }), IsError(ErrorCode::unsupported, "0x4"));
}

TEST_F(Damage, TheNewestGoodCheckpointIsTaken) {
  auto directory = open({.keep_last = 4});
  save(directory, 1);
  const path second = save(directory, 2);
  const path third = save(directory, 3);
  flip(second, 5000, 1);
  flip(third, 10, 1);
  const auto checkpoint = directory.latest();
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->info().step, 1);
  EXPECT_EQ(checkpoint->blob("state"), "step 1");
  ASSERT_THAT(directory.rejected(), SizeIs(2));
  EXPECT_EQ(directory.rejected()[0].path, third);
  EXPECT_THAT(directory.rejected()[1].reason, HasSubstr("checksum of bytes"));
}

TEST_F(Damage, NoneGoodIsAnErrorThatSaysWhyOfEach) {
  auto directory = open();
  EXPECT_FALSE(directory.latest());
  flip(save(directory, 1), 6000, 2);
  flip(save(directory, 2), 0, 2);
  const auto error = thrown_error([&] { (void)directory.latest(); });
  EXPECT_THAT(error, IsError(ErrorCode::corrupt, "checkpoint-000000000001.h5: read the commit page"));
  EXPECT_THAT(error, IsError(ErrorCode::corrupt, "checkpoint-000000000000.h5: verify"));
}

TEST_F(Damage, ADamagedOneAskedForByNameIsAnError) {
  auto directory = open();
  save(directory, 1);
  flip(save(directory, 2), 6000, 2);
  EXPECT_THAT(thrown_error([&] { (void)directory.open(1); }), IsError(ErrorCode::corrupt, "checksum"));
  EXPECT_EQ(directory.open(0).info().step, 1);
  EXPECT_THAT(thrown_error([&] { (void)directory.open(7); }), IsError(ErrorCode::not_found, "it has 1, 0"));
}

TEST_F(Damage, ARenamedFileIsNotTaken) {
  auto directory = open();
  const path first = save(directory, 1);
  std::filesystem::copy_file(first, path_ / "checkpoint-000000000009.h5");
  const auto checkpoint = directory.latest();
  EXPECT_EQ(checkpoint->info().serial, 0);
  ASSERT_THAT(directory.rejected(), SizeIs(1));
  EXPECT_THAT(directory.rejected()[0].reason, HasSubstr("says serial 0"));
  EXPECT_EQ(save(directory, 2).filename(), "checkpoint-000000000010.h5");
}

// A sparse file whose commit page, right in itself, says `hdf5_end` and a table of `extent_count` zeros.
path forge(const path& directory, std::uint64_t hdf5_end, std::uint64_t extent_count) {
  const auto page = rota::checkpoint::encode_page({.hdf5_end = hdf5_end,
                                                   .file_bytes = hdf5_end + 32 * extent_count,
                                                   .extent_count = extent_count,
                                                   .table_digest = {},
                                                   .run_id = {},
                                                   .contents_digest = {}});
  const path file = directory / "checkpoint-000000000000.h5";
  write_file(file, {reinterpret_cast<const char*>(page.data()), page.size()});
  std::filesystem::resize_file(file, hdf5_end + 32 * extent_count);
  return file;
}

TEST_F(Damage, AForgedPageTakesNoMoreMemoryThanATrueOne) {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 34;  // a table of 512 GiB
  EXPECT_THAT(thrown_error([&] { verify(forge(path_, 8192, kMany)); }),
              IsError(ErrorCode::corrupt, "its sizes contradict one another"));
  EXPECT_THAT(thrown_error([&] { verify(forge(path_, 4096 + kMany, kMany)); }),
              IsError(ErrorCode::corrupt, "the extent table has 0 bytes at 0"));
}

TEST_F(Damage, OtherFilesAreNoCheckpoints) {
  write_file(path_ / "checkpoint-12.h5", "x");
  write_file(path_ / "checkpoint-00000000000a.h5", "x");
  auto directory = open();
  EXPECT_FALSE(directory.latest());
  EXPECT_THAT(directory.list(), SizeIs(0));
}

TEST_F(Damage, OfNeighbouringExtentsIsOneAndNamesItsRows) {
  Snapshot snapshot;
  snapshot.tensor("w", DType::uint8, {1000}, 6000, make_rows(1, 6000, 1000));
  const path file = open().save(1, snapshot).info.path;
  const auto middle = std::filesystem::file_size(file) / 2;
  flip(file, middle, 0);
  flip(file, middle + (1 << 20), 0);
  const auto damage = rota::verify_checkpoint(file).damage;
  ASSERT_THAT(damage, SizeIs(2));  // and the row digest
  EXPECT_EQ(damage[0].bytes, 2 << 20);
  EXPECT_LE(damage[0].offset, static_cast<std::int64_t>(middle));
  EXPECT_THAT(damage[0].what, ::testing::ContainsRegex("is wrong: rows [0-9]+ to [0-9]+ of tensor \"w\"$"));
  EXPECT_EQ(damage[1].part, rota::Damage::Part::rows);
}

TEST_F(Damage, WhatCannotBeVerifiedNowIsNoDamage) {
  EXPECT_THAT(thrown_error([&] { rota::verify_checkpoint(path_ / "none.h5"); }),
              IsError(ErrorCode::not_found, "none"));
  const path file = save();
  set_version(file, 7);
  EXPECT_THAT(thrown_error([&] { rota::verify_checkpoint(file); }),
              IsError(ErrorCode::unsupported, "version 7"));
}

TEST_F(Damage, AFileThatIsNotThereIsNotFound) {
  EXPECT_THAT(thrown_error([&] { rota::open_checkpoint(path_ / "none.h5"); }),
              IsError(ErrorCode::not_found, "none.h5"));
}

// A file whose checksums are right may still be wrong, if its writer was.
TEST_F(Damage, RowsThatWereMixedUpBeforeTheyWereHashedAreFound) {
  const path file = save();
  rota::CheckpointReader reader(rota::checkpoint::posix_file_system(), file);
  auto sums = reader.verify_extents({});
  reader.require_row_digests(sums);
  ++sums[1];
  EXPECT_THAT(thrown_error([&] { reader.require_row_digests(sums); }), IsError(ErrorCode::corrupt, "\"w\""));
}

TEST_F(Damage, RowDigestsOfAnySplitAddUp) {
  const path file = save();
  rota::CheckpointReader reader(rota::checkpoint::posix_file_system(), file);
  for (const int size : {1, 2, 3, 16, 50}) {
    std::vector<std::uint64_t> sums(2);
    for (int rank = 0; rank < size; ++rank) {
      const auto parts = reader.verify_extents({.rank = rank, .size = size});
      for (std::size_t t = 0; t < sums.size(); ++t) sums[t] += parts[t];
    }
    reader.require_row_digests(sums);
  }
}

TEST(RowDigest, TellsSwappedRowsApartAndDoesNotMindTheSplit) {
  const auto rows = make_rows(0, 10, 24);
  auto swapped = rows;
  std::swap_ranges(swapped.begin(), swapped.begin() + 24, swapped.begin() + 48);
  const std::uint64_t whole = rota::checkpoint::row_digest(rows, 0, 24);
  EXPECT_NE(rota::checkpoint::row_digest(swapped, 0, 24), whole);
  const std::span all(rows);
  EXPECT_EQ(rota::checkpoint::row_digest(all.first(72), 0, 24) +
                rota::checkpoint::row_digest(all.subspan(72), 3, 24),
            whole);
}

}  // namespace rota::test::damage_test
