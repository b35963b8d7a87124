// Copies of checkpoints in a storage: the newest good one is found there, and what fails there costs no save.

#include <latch>

#include "formats/memory_storage.hpp"
#include "ranks_fixture.hpp"

namespace rota::test::mirror_test {

std::string name_of(int serial) { return fmt::format("b/run/checkpoint-{:012}.h5", serial); }

/// Each rank has a storage, and only rank 0's is used.
class Mirrored : public RanksCheckpointTest {
 protected:
  CheckpointDirectory open_in(const std::string& below, std::int64_t keep_last = 2) {
    return {comm(), path_ / below, {.keep_last = keep_last, .mirror = mirror_}};
  }
  void save_and_copy(CheckpointDirectory&& directory, int step) { save_and_copy(directory, step); }
  void save_and_copy(CheckpointDirectory& directory, int step) {
    EXPECT_EQ(save(directory, step).mirror_error, "");
    directory.wait_for_mirror();
  }

  std::shared_ptr<MemoryStorage> storage_ = std::make_shared<MemoryStorage>();
  StoredPath mirror_ = stored_path("memory://b/run", {{"memory", storage_}});
};

TEST_F(Mirrored, EachIsCopiedAndAnEmptyDirectoryGoesOnFromThere) {
  {
    auto directory = open_in("a");
    for (const int step : {1, 2, 3}) save_and_copy(directory, step);
    save(directory, 4);
  }  // waits for copies
  if (rank() == 0) {
    for (const int serial : {2, 3}) {  // earlier ones are no longer in the directory
      EXPECT_EQ(storage_->files.at(name_of(serial)).bytes,
                read_file(path_ / "a" / fs::path(name_of(serial)).filename()));
    }
    EXPECT_TRUE(storage_->files.contains(name_of(0)));
  } else {
    EXPECT_THAT(storage_->files, IsEmpty());
  }
  auto directory = open_in("b");
  expect_latest(directory, 4);
  EXPECT_EQ(save(directory, 5).info.serial, 4);
  directory.wait_for_mirror();
  expect_latest(directory, 5);
}

TEST_F(Mirrored, ASerialIsUsedOnceThoughNobodyRestored) {
  open_in("a").save_all(1, weights_);
  auto directory = open_in("b");
  EXPECT_EQ(save(directory, 2).info.serial, 1);
}

TEST_F(Mirrored, WhatIsInTheBackgroundIsCopiedToo) {
  auto directory = open_in("a");
  directory.save_all_async(1, weights_);
  ASSERT_TRUE(directory.wait());
  directory.wait_for_mirror();
  EXPECT_EQ(storage_->files.contains(name_of(0)), rank() == 0);
}

TEST_F(Mirrored, TheNewestGoodOneOfBothIsTaken) {
  save_and_copy(open_in("a", 9), 1);
  for (const int step : {2, 3}) save_and_copy(open_in("b", 9), step);
  auto directory = open_in("a", 9);
  expect_latest(directory, 3);
  if (rank() == 0) storage_->files.at(name_of(2)).bytes.at(5000) ^= 1;
  auto third = open_in("c", 9);
  expect_latest(third, 2);
  EXPECT_THAT(third.rejected(), SizeIs(1));
}

TEST_F(Mirrored, ACopyThatIsDamagedOnItsWayIsFetchedAgain) {
  auto saved = open_in("a");
  for (const int step : {1, 2}) save_and_copy(saved, step);
  int reads = 0;
  storage_->after_read = [&](const StoredBytes& one) {
    if (one.file->name == name_of(1) && reads++ == 0) one.to[5000] ^= std::byte{1};
  };
  auto directory = open_in("b");
  expect_latest(directory, 2);
  EXPECT_THAT(directory.rejected(), IsEmpty());
  EXPECT_EQ(reads, rank() == 0 ? 2 : 0);
}

TEST_F(Mirrored, AnObjectOfTheLastNumberEndsNoSave) {
  storage_->files["b/run/checkpoint-999999999999.h5"] = {};
  auto directory = open_in("a");
  save_and_copy(directory, 1);
  expect_latest(directory, 1);
  if (rank() == 0) write_file(path_ / "a" / "checkpoint-999999999999.h5", "");
  EXPECT_ERROR_OF_ALL(directory.save_all(1, weights_), out_of_range,
                      {"checkpoint-999999999999.h5 has the last number"});
}

TEST_F(Mirrored, ADamagedFileIsReplacedByItsCopy) {
  auto directory = open_in("a");
  save_and_copy(directory, 1);
  const fs::path file = path_ / "a" / "checkpoint-000000000000.h5";
  if (rank() == 0) flip(file, 5000);
  expect_latest(directory, 1);
  EXPECT_THAT(directory.rejected(), SizeIs(1));
  if (rank() != 0) return;
  EXPECT_EQ(read_file(file), storage_->files.at(name_of(0)).bytes);
}

TEST_F(Mirrored, WhatFailsThereCostsNoSave) {
  std::latch saved(1);
  auto directory = open_in("a");
  storage_->on_write = [&](std::string_view) {
    saved.wait();  // or the report of the save would tell it
    throw Error(io, "the bucket is full");
  };
  EXPECT_EQ(save(directory, 1).mirror_error, "");
  saved.count_down();
  EXPECT_ERROR_OF_ALL(directory.wait_for_mirror(), io,
                      {"memory://b/run/checkpoint-000000000000.h5: the bucket is full"});
  directory.wait_for_mirror();  // told once
  expect_latest(directory, 1);
}

TEST_F(Mirrored, WhatFailedThereIsInTheNextReport) {
  auto directory = open_in("a");
  storage_->on_write = [&](std::string_view) { throw Error(io, "the bucket is full"); };
  std::string told;
  for (int step = 0; told.empty() && step < 1000; ++step) {  // the copy may fail during any of them
    told = ranks::broadcast(comm(), save(directory, step).mirror_error);
  }
  EXPECT_THAT(told, HasSubstr("the bucket is full"));
}

TEST_F(Mirrored, ASlowOneHoldsNoSaveBack) {
  std::latch begun(1);
  std::latch saved(1);
  std::atomic<int> writes = 0;
  auto directory = open_in("a");
  storage_->on_write = [&](std::string_view) {
    if (writes++ > 0) return;
    begun.count_down();
    saved.wait();
  };
  for (const int step : {1, 2, 3, 4}) {
    save(directory, step);
    if (step == 1 && rank() == 0) begun.wait();
  }
  saved.count_down();
  directory.wait_for_mirror();
  if (rank() != 0) return;
  EXPECT_EQ(writes, 2);  // of those that waited, the newest
  EXPECT_TRUE(storage_->files.contains(name_of(0)));
  EXPECT_TRUE(storage_->files.contains(name_of(3)));
}

TEST_F(Mirrored, ThatCannotBeReadIsAnErrorOnAllRanks) {
  save_and_copy(open_in("a"), 1);
  auto directory = open_in("b");
  storage_->on_read = [](const StoredBytes&) { throw Error(io, "the wire is cut"); };
  EXPECT_ERROR_OF_ALL(directory.latest(), io, {"memory://b/run/checkpoint-000000000000.h5: the wire is cut"});
  EXPECT_THAT(names_in(path_ / "b"), IsEmpty());
  storage_->on_read = nullptr;
  storage_->on_list = [] { throw Error(io, "nobody is there"); };
  EXPECT_ERROR_OF_ALL(directory.latest(), io, {"nobody is there"});
  EXPECT_ERROR_OF_ALL(open_in("c"), io, {"memory://b/run/"});
  storage_->on_list = nullptr;
  expect_latest(directory, 1);
}

TEST_F(Mirrored, IsTheSameOnAllRanks) {
  if (size() == 1) return;
  if (rank() == 1) mirror_ = {};
  EXPECT_ERROR_OF_ALL(open_in("a"), mismatch, {"mirror"});
}

}  // namespace rota::test::mirror_test
