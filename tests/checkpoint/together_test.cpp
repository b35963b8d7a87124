// All ranks return, or all throw the same: whatever goes wrong on one of them.

#include "ranks_fixture.hpp"

namespace rota::test::together_test {

using SavedTogether = RanksCheckpointTest;

TEST_F(SavedTogether, AStateThatThrowsOnOneRankThrowsOnAll) {
  auto directory = open();
  save(directory, 1);
  weights_.is_broken = rank() == last();
  EXPECT_ERROR_OF_ALL(save(directory, 2), callback, {from(last()) + "the weights are not numbers"});
  weights_.is_broken = false;
  expect_latest(directory, 1);
  EXPECT_EQ(save(directory, 3).info.serial, 1);
  expect_latest(directory, 3);
}

TEST_F(SavedTogether, AFailedCallOnOneRankThrowsOnAllAndLeavesNothing) {
  auto directory = open_faulty();
  save(directory, 1);
  for (const char* kind : {"open", "pwrite", "close"}) {
    system_.fail(kind, rank() == last() ? 0 : -1, EIO);
    EXPECT_ERROR_OF_ALL(save(directory, 2), io, {from(last())}) << kind;
    EXPECT_THAT(names(), ElementsAre("checkpoint-000000000000.h5")) << kind;
  }
  expect_latest(directory, 1);
}

TEST_F(SavedTogether, AFullDiskIsSeenBeforeAnyRankWrites) {
  auto directory = open_faulty();
  system_.fail("fallocate", rank() == 0 ? 0 : -1, ENOSPC);
  EXPECT_ERROR_OF_ALL(save(directory, 1), io, {"free some space"});
  EXPECT_EQ(system_.calls("pwrite"), 0);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(SavedTogether, OneRankWritesBackForItsNode) {
  auto directory = open_faulty();
  system_.fail("none", 0, 0);  // counts from here on
  save(directory, 1);
  EXPECT_EQ(system_.calls("fsync"), rank() == 0 ? 2 : 0);  // the file, and the directory
}

TEST_F(SavedTogether, ASnapshotThatWasMovedFromOnOneRankThrowsOnAll) {
  const std::string why = from(last()) + "use a snapshot: it is empty";
  auto directory = open();
  Snapshot snapshot;
  const Snapshot other = rank() == last() ? std::move(snapshot) : Snapshot();
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  EXPECT_ERROR_OF_ALL(directory.save(1, snapshot), invalid_argument, {why});
  directory.save_async(2, std::move(snapshot));
  EXPECT_ERROR_OF_ALL(directory.wait(), invalid_argument, {why});
  EXPECT_EQ(directory.save(3, {}).info.serial, 0);
}

TEST_F(SavedTogether, RanksThatSaveDifferentThingsAreToldWhich) {
  auto directory = open();
  Snapshot snapshot;
  snapshot.tensor(rank() == last() ? "other" : "w", DType::int8, {}, 0, Bytes{});
  if (size() > 1) {
    EXPECT_ERROR_OF_ALL(directory.save(1, snapshot), invalid_argument,
                        {"tensor \"other\", int8 [], in order where rank 0"});
    EXPECT_ERROR_OF_ALL(directory.save(rank() == last() ? 1 : 2, {}), invalid_argument,
                        {"saves step 1 where rank 0 saves step 2"});
  }
  EXPECT_EQ(directory.save(1, {}).info.serial, 0);
}

TEST_F(SavedTogether, ARankThatAddsATensorFailsTheSaveOnAllAndTheNextIsGood) {
  if (size() == 1) GTEST_SKIP() << "one rank has no others";
  auto directory = open();
  Snapshot snapshot;
  weights_.save(snapshot);
  if (rank() == last()) snapshot.tensor("another", DType::int8, {}, 0, Bytes{});
  EXPECT_ERROR_OF_ALL(directory.save(1, snapshot), invalid_argument, {"another"});
  EXPECT_EQ(save(directory, 2).info.serial, 0);
  expect_latest(directory, 2);
}

TEST_F(SavedTogether, DamageThatOneRankFindsIsPassedOverByAll) {
  auto directory = open();
  save(directory, 1);
  const auto info = save(directory, 2).info;
  names();
  if (rank() == 0) flip(info.path, fs::file_size(info.path) / 2);
  names();
  expect_latest(directory, 1);
  ASSERT_THAT(directory.rejected(), SizeIs(1));
  const std::string reason = directory.rejected()[0].reason;
  EXPECT_EQ(ranks::broadcast(comm(), reason), reason);
  EXPECT_THAT(reason, HasSubstr("the checksum of bytes"));
}

TEST_F(SavedTogether, AFileThatOneRankCannotReadNowIsAnErrorOnAllAndNotAnOlderState) {
  auto directory = open_faulty();
  for (const int step : {1, 2}) save(directory, step);
  for (const auto& [kind, at, error] :
       {std::tuple{"open", 0, EACCES}, {"pread", 2, EIO}, {"pread", 0, ENOMEM}}) {
    system_.fail(kind, rank() == last() ? at : -1, error);
    EXPECT_ERROR_OF_ALL(directory.latest(), io, {from(last())});
  }
  expect_latest(directory, 2);
  EXPECT_THAT(directory.rejected(), IsEmpty());
}

TEST_F(SavedTogether, RanksThatSeeDifferentFilesDoNotRestore) {
  if (size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const int which : {1, 2}) {
    weights_.set(which);
    CheckpointDirectory(comm(), path_ / std::to_string(which)).save_all(which, weights_);
  }
  CheckpointDirectory directory(comm(), path_ / (rank() == last() ? "2" : "1"));
  EXPECT_ERROR(directory.latest(), io, {from(last()) + "open " + (path_ / "2").string()});
  EXPECT_ERROR(directory.latest(), io, {"this rank sees another file than rank 0"});
}

TEST_F(SavedTogether, ALockedDirectoryIsBusyOnAllRanks) {
  auto directory = open();
  EXPECT_TRUE(directory.is_locked());
  EXPECT_ERROR_OF_ALL(open(), busy, {path_.string()});
}

TEST_F(SavedTogether, AllRanksListTheSame) {
  auto directory = open({.keep_last = 3});
  for (int step = 0; step < 4; ++step) directory.save(step, {});
  const auto infos = directory.list();
  ASSERT_THAT(infos, SizeIs(3));
  EXPECT_EQ(infos[2].step, 3);
  EXPECT_EQ(ranks::broadcast(comm(), infos[2].run_id), infos[2].run_id);
}

TEST_F(SavedTogether, ARankThatDoesNotArriveIsNamedAndIsToldWhenItComesAfterAll) {
  if (size() != 3) GTEST_SKIP() << "takes a second: with three ranks";
  for (const int late : {0, last()}) {
    const auto is_told = is_error(timeout, {fmt::format("rank {} did not arrive", late)});
    auto directory = open({.deadline = kDeadline});
    const auto expect_told = [&] {
      const auto error = error_of([&] { directory.save(1, {}); });
      EXPECT_THAT(error, is_told);
      EXPECT_THAT(error_of([&] { (void)directory.latest(); }), is_told);
      return std::string(error.value().what());
    };
    const auto start = std::chrono::steady_clock::now();
    wait_without(late, [&] { EXPECT_THAT(expect_told(), Not(ContainsRegex("before.*before"))); });
    if (rank() == late) expect_told();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 200ms + 2s);
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(SavedTogether, TheLongestDeadlineThereIsDoesNotEndAtOnce) {
  auto directory = open({.deadline = std::chrono::milliseconds::max()});
  if (rank() == last()) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(directory.save(1, {}).info.serial, 0);
}

}  // namespace rota::test::together_test
