// All ranks return, or all throw the same: whatever goes wrong on one of them.

#include "directory_access.hpp"
#include "faulty_file_system.hpp"
#include "mpi/collectives.hpp"
#include "mpi_fixture.hpp"
#include "test.hpp"

namespace rota::test::together_test {

using rota::CheckpointDirectoryAccess;
using rota::DType;
using rota::ErrorCode;
using rota::RowRange;
using rota::Snapshot;
using rota::test::even_share;
using rota::test::IsError;
using rota::test::make_rows;
using rota::test::read_rows;

constexpr std::int64_t kRows = 100'000;

// A state of which rank `broken` cannot be saved.
struct State {
  int rank = 0;
  int broken = -1;
  std::int64_t salt = 0;
  rota::World world;

  void save(Snapshot& snapshot) const {
    if (rank == broken) throw std::runtime_error("the optimizer has no state");
    const RowRange share = even_share(kRows, world);
    snapshot.tensor("w", DType::int64, {2}, share.count, make_rows(share.first + salt, share.count, 16));
  }
};

class Together : public rota::test::MpiCheckpointTest {
 protected:
  static State state(std::int64_t salt, int broken = -1) {
    return {.rank = rank(), .broken = broken, .salt = salt, .world = comm().world()};
  }
  static int last() { return size() - 1; }
  // "rank r: " heads an error of one of several ranks.
  static std::string from(int failed) { return size() > 1 ? "rank " + std::to_string(failed) + ": " : ""; }

  static void expect_salt(const rota::Checkpoint& checkpoint, std::int64_t salt) {
    EXPECT_EQ(read_rows(checkpoint, "w", {0, kRows}, 16), make_rows(salt, kRows, 16));
  }
};

TEST_F(Together, AStateThatThrowsOnOneRankThrowsOnAll) {
  auto directory = open();
  directory.save_all(1, state(1));
  EXPECT_THAT(same_error_of([&] { directory.save_all(2, state(2, last())); }),
              IsError(ErrorCode::callback, from(last()) + "the optimizer has no state"));
  expect_salt(*directory.latest(), 1);
  EXPECT_EQ(directory.save_all(3, state(3)).info.serial, 1);
  expect_salt(*directory.latest(), 3);
}

TEST_F(Together, AFailedCallOnOneRankThrowsOnAllAndLeavesNothing) {
  rota::test::FaultyFileSystem system;
  auto directory = CheckpointDirectoryAccess::open(comm(), path_, {}, system);
  directory.save_all(1, state(1));
  for (const char* kind : {"open", "pwrite", "close"}) {
    system.fail(kind, rank() == last() ? 0 : -1, EIO);
    EXPECT_THAT(same_error_of([&] { directory.save_all(2, state(2)); }), IsError(ErrorCode::io, from(last())))
        << kind;
    EXPECT_THAT(names(), ElementsAre("checkpoint-000000000000.h5")) << kind;
  }
  expect_salt(*directory.latest(), 1);
}

TEST_F(Together, AFullDiskIsSeenBeforeAnyRankWrites) {
  rota::test::FaultyFileSystem system;
  auto directory = CheckpointDirectoryAccess::open(comm(), path_, {}, system);
  system.fail("fallocate", rank() == 0 ? 0 : -1, ENOSPC);
  EXPECT_THAT(same_error_of([&] { directory.save_all(1, state(1)); }),
              IsError(ErrorCode::io, "free some space"));
  EXPECT_EQ(system.calls("pwrite"), 0);
  EXPECT_THAT(names(), SizeIs(0));
}

TEST_F(Together, OneRankWritesBackForItsNode) {
  rota::test::FaultyFileSystem system;
  auto directory = CheckpointDirectoryAccess::open(comm(), path_, {}, system);
  system.fail("none", 0, 0);  // counts from here on
  directory.save_all(1, state(1));
  EXPECT_EQ(system.calls("fsync"), rank() == 0 ? 2 : 0);  // the file, and the directory
}

TEST_F(Together, ASnapshotThatWasMovedFromOnOneRankThrowsOnAll) {
  auto directory = open();
  Snapshot snapshot;
  const Snapshot other = rank() == last() ? std::move(snapshot) : Snapshot();
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  EXPECT_THAT(same_error_of([&] { directory.save(1, snapshot); }),
              IsError(ErrorCode::invalid_argument, from(last()) + "use a snapshot: it is empty"));
  directory.save_async(2, std::move(snapshot));
  EXPECT_THAT(same_error_of([&] { directory.wait(); }),
              IsError(ErrorCode::invalid_argument, from(last()) + "use a snapshot: it is empty"));
  EXPECT_EQ(directory.save(3, {}).info.serial, 0);
}

TEST_F(Together, RanksThatSaveDifferentThingsAreToldWhich) {
  auto directory = open();
  Snapshot snapshot;
  snapshot.tensor(rank() == last() ? "other" : "w", DType::int8, {}, 0, rota::test::Bytes{});
  if (size() > 1) {
    const auto error = same_error_of([&] { directory.save(1, snapshot); });
    EXPECT_THAT(error,
                IsError(ErrorCode::invalid_argument, "tensor \"other\", int8 [], in order where rank 0"));
    EXPECT_THAT(same_error_of([&] { directory.save(rank() == last() ? 1 : 2, {}); }),
                IsError(ErrorCode::invalid_argument, "saves step 1 where rank 0 saves step 2"));
  }
  EXPECT_EQ(directory.save(1, {}).info.serial, 0);
}

TEST_F(Together, DamageThatOneRankFindsIsPassedOverByAll) {
  auto directory = open();
  directory.save_all(1, state(1));
  const auto info = directory.save_all(2, state(2)).info;
  names();
  if (rank() == 0) {
    std::string bytes = rota::test::read_file(info.path);
    bytes[bytes.size() / 2] ^= 1;
    rota::test::write_file(info.path, bytes);
  }
  names();
  expect_salt(*directory.latest(), 1);
  ASSERT_THAT(directory.rejected(), SizeIs(1));
  const std::string reason = directory.rejected()[0].reason;
  EXPECT_EQ(rota::mpi::broadcast(comm(), reason), reason);
  EXPECT_THAT(reason, HasSubstr("the checksum of bytes"));
}

TEST_F(Together, AFileThatOneRankCannotReadNowIsAnErrorOnAllAndNotAnOlderState) {
  rota::test::FaultyFileSystem system;
  auto directory = CheckpointDirectoryAccess::open(comm(), path_, {}, system);
  directory.save_all(1, state(1));
  directory.save_all(2, state(2));
  for (const auto& [kind, at, error] :
       {std::tuple{"open", 0, EACCES}, {"pread", 2, EIO}, {"pread", 0, ENOMEM}}) {
    system.fail(kind, rank() == last() ? at : -1, error);
    EXPECT_THAT(same_error_of([&] { (void)directory.latest(); }), IsError(ErrorCode::io, from(last())));
  }
  expect_salt(*directory.latest(), 2);
  EXPECT_THAT(directory.rejected(), SizeIs(0));
}

TEST_F(Together, RanksThatSeeDifferentFilesDoNotRestore) {
  if (size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const int which : {1, 2}) {
    rota::CheckpointDirectory(comm(), path_ / std::to_string(which)).save_all(which, state(which));
  }
  rota::CheckpointDirectory directory(comm(), path_ / (rank() == last() ? "2" : "1"));
  EXPECT_THAT(rota::test::thrown_error([&] { (void)directory.latest(); }),
              IsError(ErrorCode::io, from(last()) + "open " + (path_ / "2").string()));
  EXPECT_THAT(rota::test::thrown_error([&] { (void)directory.latest(); }),
              IsError(ErrorCode::io, "this rank sees another file than rank 0"));
}

TEST_F(Together, ALockedDirectoryIsBusyOnAllRanks) {
  auto directory = open();
  EXPECT_TRUE(directory.is_locked());
  EXPECT_THAT(same_error_of([&] { open(); }), IsError(ErrorCode::busy, path_.string()));
}

TEST_F(Together, AllRanksListTheSame) {
  auto directory = open({.keep_last = 3});
  for (int step = 0; step < 4; ++step) directory.save(step, {});
  const auto infos = directory.list();
  ASSERT_THAT(infos, SizeIs(3));
  EXPECT_EQ(infos[2].step, 3);
  EXPECT_EQ(rota::mpi::broadcast(comm(), infos[2].run_id), infos[2].run_id);
}

TEST_F(Together, ARankThatDoesNotArriveIsNamedAndIsToldWhenItComesAfterAll) {
  if (size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const int late : {0, last()}) {
    auto directory = open({.deadline = std::chrono::milliseconds(200)});
    const auto start = std::chrono::steady_clock::now();
    if (rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1800));
    const std::string named = "rank " + std::to_string(late) + " did not arrive";
    const rota::Error error = rota::test::thrown_error([&] { directory.save(1, {}); });
    EXPECT_THAT(error, IsError(ErrorCode::timeout, named));
    const std::string message = error.what();
    if (rank() != late) {
      EXPECT_EQ(message.find("before"), message.rfind("before")) << message;  // told once
    }
    EXPECT_THAT(rota::test::thrown_error([&] { (void)directory.latest(); }),
                IsError(ErrorCode::timeout, named));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200 + 2000));
  }
  EXPECT_THAT(names(), SizeIs(0));
}

TEST_F(Together, TheLongestDeadlineThereIsDoesNotEndAtOnce) {
  auto directory = open({.deadline = std::chrono::milliseconds::max()});
  if (rank() == last()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(directory.save(1, {}).info.serial, 0);
}

}  // namespace rota::test::together_test
