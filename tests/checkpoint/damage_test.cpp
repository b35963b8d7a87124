// Damage is found before HDF5 sees it, and a directory falls back to an older checkpoint.

#include "checkpoint_fixture.hpp"
#include "commit_page.hpp"
#include "core/bytes.hpp"
#include "digest.hpp"
#include "files/file.hpp"
#include "reader.hpp"
#include "saved_state.hpp"

namespace rota::test::damage_test {

// Only the steps before HDF5 is asked.
void verify(const fs::path& file) {
  const CheckpointReader reader(internal::posix_file_system(), file);
  static_cast<void>(reader.verify_extents({}));
}

class Damaged : public CheckpointTest {
 protected:
  fs::path save(CheckpointDirectory& directory, std::int64_t step) {
    Snapshot snapshot;
    snapshot.tensor("w", DType::int32, {2}, 40, make_rows(step, 40, 8));
    snapshot.tensor("loader/main/cursors", DType::int64, {2}, 16, make_rows(step, 16, 16));
    return directory.save(step, snapshot).info.path;
  }
  fs::path save() {
    auto directory = open();
    return save(directory, 1);
  }
  // Sets a number in the page's prefix, and makes its checksum right again.
  template <typename T>
  static void set(const fs::path& file, std::size_t at, T value) {
    std::string bytes = read_file(file);
    const auto page = std::as_writable_bytes(std::span(bytes));
    store(page, at, value);
    store(page, 32, checkpoint::short_digest(page.first(32)));
    write_file(file, bytes);
  }
  static void set_version(const fs::path& file, std::uint32_t version) { set(file, 8, version); }
};

TEST_F(Damaged, ASizeThatIsNotThePagesIsNamed) {
  const fs::path file = save();
  const std::string good = read_file(file);
  for (const auto& [bytes, why] : {std::pair{good.substr(0, good.size() - 1), "its commit page says"},
                                   {good + "x", "its commit page says"},
                                   {good.substr(0, 4095), "less than a commit page"}}) {
    write_file(file, bytes);
    EXPECT_ERROR(verify(file), corrupt, {why});
  }
}

TEST_F(Damaged, ANewerFormatIsRefusedWithBothNumbers) {
  const fs::path file = save();
  set_version(file, 7);
  EXPECT_ERROR(open_checkpoint(file), unsupported, {"version 7", "up to version 1"});
  EXPECT_ERROR(open().latest(), unsupported, {"version 7"});
}

TEST_F(Damaged, AFileOfANewerFormatIsNeverDropped) {
  auto directory = open({.keep_last = 1});
  const fs::path newer = save(directory, 1);
  set_version(newer, 7);
  for (int step = 2; step < 5; ++step) save(directory, step);
  EXPECT_THAT(names_in(path_), SizeIs(2));
  EXPECT_TRUE(fs::exists(newer));
}

TEST_F(Damaged, AnUnknownRequiredFeatureIsRefused) {
  const fs::path file = save();
  set(file, 16, std::uint64_t{4});
  EXPECT_ERROR(open_checkpoint(file), unsupported, {"0x4"});
}

TEST_F(Damaged, NoneGoodIsAnErrorThatSaysWhyOfEach) {
  auto directory = open();
  EXPECT_FALSE(directory.latest());
  flip(save(directory, 1), 6000, 2);
  flip(save(directory, 2), 0, 2);
  EXPECT_ERROR(directory.latest(), corrupt,
               {"checkpoint-000000000001.h5: read the commit page", "checkpoint-000000000000.h5: verify"});
}

TEST_F(Damaged, OnesAskedForByNameAreAnError) {
  auto directory = open();
  save(directory, 1);
  flip(save(directory, 2), 6000, 2);
  EXPECT_ERROR(directory.open(1), corrupt, {"checksum"});
  EXPECT_EQ(directory.open(0).info().step, 1);
  EXPECT_ERROR(directory.open(7), not_found, {"it has 1, 0"});
}

TEST_F(Damaged, ARenamedFileIsNotTaken) {
  auto directory = open();
  const fs::path first = save(directory, 1);
  fs::copy_file(first, path_ / "checkpoint-000000000009.h5");
  EXPECT_EQ(directory.latest()->info().serial, 0);
  ASSERT_THAT(directory.rejected(), SizeIs(1));
  EXPECT_THAT(directory.rejected()[0].reason, HasSubstr("says serial 0"));
  EXPECT_EQ(save(directory, 2).filename(), "checkpoint-000000000010.h5");
}

// A sparse file whose commit page, right in itself, says `hdf5_end` and a table of `extent_count` zeros.
fs::path forge(const fs::path& directory, std::uint64_t hdf5_end, std::uint64_t extent_count) {
  const std::uint64_t file_bytes = hdf5_end + 32 * extent_count;
  const auto page = checkpoint::encode_page({.hdf5_end = hdf5_end,
                                             .file_bytes = file_bytes,
                                             .extent_count = extent_count,
                                             .table_digest = {},
                                             .run_id = {},
                                             .contents_digest = {}});
  const fs::path file = directory / "checkpoint-000000000000.h5";
  write_file(file, {reinterpret_cast<const char*>(page.data()), page.size()});
  fs::resize_file(file, file_bytes);
  return file;
}

TEST_F(Damaged, AForgedPageTakesNoMoreMemoryThanATrueOne) {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 34;  // a table of 512 GiB
  EXPECT_ERROR(verify(forge(path_, 8192, kMany)), corrupt, {"its sizes contradict one another"});
  EXPECT_ERROR(verify(forge(path_, 4096 + kMany, kMany)), corrupt, {"the extent table has 0 bytes at 0"});
}

TEST_F(Damaged, OtherFilesAreNoCheckpoints) {
  write_file(path_ / "checkpoint-12.h5", "x");
  write_file(path_ / "checkpoint-00000000000a.h5", "x");
  auto directory = open();
  EXPECT_FALSE(directory.latest());
  EXPECT_THAT(directory.list(), IsEmpty());
}

TEST_F(Damaged, NeighbouringExtentsAreOneAndNameTheirRows) {
  Snapshot snapshot;
  snapshot.tensor("w", DType::uint8, {1000}, 6000, make_rows(1, 6000, 1000));
  const fs::path file = open().save(1, snapshot).info.path;
  const auto middle = fs::file_size(file) / 2;
  flip(file, middle);
  flip(file, middle + (1 << 20));
  const auto damage = verify_checkpoint(file).damage;
  ASSERT_THAT(damage, SizeIs(2));  // and the row digest
  EXPECT_EQ(damage[0].bytes, 2 << 20);
  EXPECT_LE(damage[0].offset, static_cast<std::int64_t>(middle));
  EXPECT_THAT(damage[0].what, ContainsRegex("is wrong: rows [0-9]+ to [0-9]+ of tensor \"w\"$"));
  EXPECT_EQ(damage[1].part, Verification::Damage::Part::rows);
}

TEST_F(Damaged, WhatCannotBeReadNowIsNoDamage) {
  const fs::path none = path_ / "none.h5";
  EXPECT_ERROR(verify_checkpoint(none), not_found, {"none.h5"});
  EXPECT_ERROR(open_checkpoint(none), not_found, {"none.h5"});
  const fs::path file = save();
  set_version(file, 7);
  EXPECT_ERROR(verify_checkpoint(file), unsupported, {"version 7"});
}

// A file whose checksums are right may still be wrong, if its writer was.
TEST_F(Damaged, RowsThatWereMixedUpBeforeTheyWereHashedAreFound) {
  const fs::path file = save();
  CheckpointReader reader(internal::posix_file_system(), file);
  auto sums = reader.verify_extents({});
  reader.require_row_digests(sums);
  ++sums[1];
  EXPECT_ERROR(reader.require_row_digests(sums), corrupt, {"\"w\""});
}

// ---- every combination of damaged ones among four checkpoints ----

constexpr int kCount = 4;
constexpr std::int64_t kBytes = 4000;

struct Harm {
  const char* name;
  std::function<void(const fs::path&)> apply;
};

class DamagedNewest : public CheckpointTest {
 protected:
  // Calls `work` with serial i of four damaged where bit i of a combination is set, for each, and each harm.
  void for_each_combination(const std::function<void()>& work) {
    for (const auto& [name, apply] :
         {Harm{"flipped", [](const fs::path& file) { flip(file, fs::file_size(file) / 2, 2); }},
          {"cut", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) * 2 / 3); }},
          {"emptied", [](const fs::path& file) { fs::resize_file(file, 0); }}}) {
      for (int combination = 0; combination < 1 << kCount; ++combination) {
        SCOPED_TRACE(fmt::format("{}, combination {}", name, combination));
        fs::remove_all(path_);
        make(combination, apply);
        work();
      }
    }
  }

  // The step is not the serial.
  fs::path save(CheckpointDirectory& directory, std::int64_t serial) {
    return directory.save(100 + serial, make_state(100 + serial, {}, kBytes)).info.path;
  }
  void expect_latest(CheckpointDirectory& directory, std::int64_t serial) {
    const auto newest = directory.latest();
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->info().serial, serial);
    EXPECT_EQ(newest->info().step, 100 + serial);
    EXPECT_EQ(difference(*newest, kBytes), "");
  }
  // Takes it, or says that there is none.
  void expect_newest_good(CheckpointDirectory& directory) {
    if (newest_good_) {
      expect_latest(directory, *newest_good_);
    } else {
      EXPECT_ERROR(directory.latest(), corrupt, {"none is good"});
    }
    std::vector<fs::path> rejected;
    for (const auto& bad : directory.rejected()) rejected.push_back(bad.path);
    const std::vector<fs::path> newer(files_.rbegin(), files_.rend() - 1 - newest_good_.value_or(-1));
    EXPECT_THAT(rejected, ElementsAreArray(newer));
  }

  void make(int combination, const std::function<void(const fs::path&)>& harm) {
    files_.clear();
    newest_good_.reset();
    CheckpointDirectory directory = open({.keep_last = kCount});
    for (int serial = 0; serial < kCount; ++serial) {
      const bool is_damaged = (combination >> serial & 1) != 0;
      files_.push_back(save(directory, serial));
      if (is_damaged) harm(files_.back());
      if (!is_damaged) newest_good_ = serial;
    }
  }

  std::vector<fs::path> files_;
  std::optional<int> newest_good_;
};

TEST_F(DamagedNewest, ArePassedOverAndSavesGoOnAboveThem) {
  for_each_combination([&] {
    CheckpointDirectory directory = open({.keep_last = kCount});
    expect_newest_good(directory);
    save(directory, kCount);
    expect_latest(directory, kCount);
    EXPECT_THAT(directory.rejected(), IsEmpty());
  });
}

TEST_F(DamagedNewest, NeverCostTheLastGoodOneBeforeANewerOneWasRead) {
  for_each_combination([&] {
    CheckpointDirectory directory = open({.keep_last = 1});
    std::set<std::int64_t> readable;  // what is damaged stays, unless it tells that it is of this run
    for (const CheckpointInfo& info : directory.list()) readable.insert(info.serial);
    expect_newest_good(directory);
    for (std::int64_t serial = kCount; serial < kCount + 3; ++serial) {
      save(directory, serial);
      EXPECT_TRUE(!newest_good_ || fs::exists(files_.at(static_cast<std::size_t>(*newest_good_))));
    }
    expect_latest(directory, kCount + 2);
    save(directory, kCount + 3);
    for (int serial = 0; serial < kCount; ++serial) {
      const bool is_of_the_run = newest_good_ && readable.contains(serial);
      EXPECT_NE(fs::exists(files_.at(static_cast<std::size_t>(serial))), is_of_the_run);
    }
    expect_latest(directory, kCount + 3);
  });
}

TEST_F(DamagedNewest, DoNotKeepAJobThatHasNotReadThemFromSaving) {
  for_each_combination([&] {
    CheckpointDirectory directory = open({.keep_last = 2});
    save(directory, kCount);
    expect_latest(directory, kCount);
    EXPECT_THAT(directory.rejected(), IsEmpty());
  });
}

}  // namespace rota::test::damage_test
