// Whatever call fails, the old checkpoints are as they were, and nothing is left of the new one.

#include <sys/file.h>

#include "checkpoint_fixture.hpp"
#include "faulty_file_system.hpp"

namespace rota::test::faults_test {

Snapshot snapshot_of(std::int64_t step) {
  Snapshot snapshot;
  snapshot.tensor("w", DType::int32, {4}, 200'000, make_rows(step, 200'000, 16));
  snapshot.blob("state", std::to_string(step));
  return snapshot;
}

class Faults : public CheckpointTest {
 protected:
  CheckpointDirectory open_faulty() { return CheckpointDirectoryAccess::open({}, path_, {}, system_); }
  static SaveReport save(CheckpointDirectory& directory, std::int64_t step) {
    return directory.save(step, snapshot_of(step));
  }

  void expect_step(std::int64_t step) {
    const auto checkpoint = open_checkpoint(path_ / names_in(path_).back());
    EXPECT_EQ(checkpoint.info().step, step);
    EXPECT_EQ(checkpoint.blob("state"), std::to_string(step));
    EXPECT_EQ(read_rows(checkpoint, "w", {0, 200'000}, 16), make_rows(step, 200'000, 16));
  }

  FaultyFileSystem system_;
};

using FailedCall = Faults;

TEST_F(FailedCall, KeepsTheOldCheckpointAndLeavesNoTemporary) {
  for (const auto& [kind, number] : {std::pair{"open", EMFILE},
                                     {"pwrite", EIO},
                                     {"pwrite", ENOSPC},
                                     {"fsync", EIO},
                                     {"close", EIO},
                                     {"fallocate", ENOSPC},
                                     {"rename", EACCES},
                                     {"list", EIO}}) {
    fs::remove_all(path_);
    system_.fail("none", 0, 0);
    auto directory = open_faulty();
    save(directory, 1);
    for (int at = 0;; ++at) {
      system_.fail(kind, at, number);
      const auto error = error_of([&] { save(directory, 2); });
      if (!error) {
        EXPECT_GE(at, 1) << kind;
        break;
      }
      EXPECT_THAT(error, is_error(io, {path_.string()})) << kind;
      EXPECT_THAT(names_in(path_), ElementsAre("checkpoint-000000000000.h5")) << kind << " call " << at;
    }
    expect_step(2);
    EXPECT_THAT(names_in(path_), SizeIs(2));
  }
}

TEST_F(Faults, ShortWritesAreGoneOnWith) {
  auto directory = open_faulty();
  system_.write_short();
  save(directory, 1);
  expect_step(1);
}

TEST_F(Faults, InterruptedCallsAreRepeated) {
  auto directory = open_faulty();
  for (const char* kind : {"open", "pwrite", "fallocate"}) {
    system_.fail(kind, 0, EINTR);
    save(directory, 3);
    EXPECT_TRUE(system_.has_failed()) << kind;
  }
  expect_step(3);
}

TEST_F(Faults, AFailedFsyncIsNotTriedAgain) {
  auto directory = open_faulty();
  system_.fail("fsync", 0, EIO);
  EXPECT_ERROR(save(directory, 1), io, {"fsync"});
  EXPECT_EQ(system_.calls("fsync"), 1);
  EXPECT_EQ(system_.calls("rename"), 0);
}

TEST_F(Faults, AFileThatCannotBeReadNowIsAnErrorAndNotAnOlderState) {
  auto directory = open_faulty();
  for (const int step : {1, 2}) save(directory, step);
  for (const auto& [kind, error, code, text] : {std::tuple{"pread", EIO, io, ""},
                                                {"open", EMFILE, io, "limit of open files"},
                                                {"size", EIO, io, ""},
                                                {"type", EIO, io, ""},
                                                {"open", ENOENT, not_found, ""},
                                                {"pread", ENOMEM, io, ""}}) {
    system_.fail(kind, 0, error);
    EXPECT_ERROR(directory.latest(), code, {text}) << kind;
  }
  EXPECT_EQ(directory.latest()->info().step, 2);
  EXPECT_THAT(directory.rejected(), IsEmpty());
}

TEST_F(Faults, NoFailureToDropAnOldOneFailsTheSave) {
  auto directory = open_faulty();
  for (int at = 0; at < 3; ++at) {  // of the lists of a save the last is for dropping
    system_.fail("list", at, ENOMEM);
    if (at < 2) {
      EXPECT_ERROR(save(directory, 1), io, {"memory"});
    } else {
      save(directory, 2);
      EXPECT_TRUE(system_.has_failed());
    }
  }
  expect_step(2);
}

TEST_F(Faults, AnOldOneThatCannotBeDroppedDoesNotFailTheSave) {
  auto directory = open_faulty();
  for (const int step : {0, 1}) save(directory, step);
  system_.fail("unlink", 0, EIO);
  save(directory, 2);
  EXPECT_THAT(names_in(path_), SizeIs(3));
  save(directory, 3);
  EXPECT_THAT(names_in(path_), SizeIs(2));
}

TEST_F(Faults, ADirectoryThatCannotBeWrittenIsRefusedAtOnce) {
  system_.fail("access", 1, EACCES);  // the first asks whether it is there
  EXPECT_ERROR(open_faulty(), io, {"the right to write there"});
}

TEST_F(Faults, ADirectoryThatWentAwayIsAnError) {
  auto directory = open();
  fs::remove_all(path_);
  EXPECT_ERROR(save(directory, 1), not_found, {"check the path: it must be there"});
  EXPECT_ERROR(directory.latest(), not_found, {path_.string()});
}

TEST_F(Faults, EachDirectoryThatIsMadeIsOnDisk) {
  const auto directory = CheckpointDirectoryAccess::open({}, path_ / "a" / "b" / "c/", {}, system_);
  EXPECT_EQ(system_.calls("fsync"), 3);  // of path_, a and b
  system_.fail("fsync", 0, EIO);
  EXPECT_ERROR(CheckpointDirectoryAccess::open({}, path_ / "a" / "d", {}, system_), io,
               {"fsync " + (path_ / "a").string()});
  system_.fail("none", 0, 0);
  open_faulty();
  EXPECT_EQ(system_.calls("fsync"), 1);  // of its parent: who made it may have died before that
}

TEST_F(Faults, ADirectoryBelongsToOneJobAtATime) {
  {
    auto directory = open();
    EXPECT_TRUE(directory.is_locked());
    EXPECT_ERROR(open(), busy, {"another job has locked it, or another CheckpointDirectory"});
    auto moved = std::move(directory);
    EXPECT_ERROR(open(), busy, {path_.string()});
  }
  open();
}

TEST_F(Faults, WhereThereAreNoLocksADirectoryCanBeUsedWithoutOne) {
  system_.fail("flock", 0, ENOLCK);
  auto directory = open_faulty();
  EXPECT_FALSE(directory.is_locked());
  save(directory, 1);
  expect_step(1);
}

TEST_F(Faults, OnlyDeadTemporariesAreSwept) {
  const auto dead = path_ / ".checkpoint-000000000003.0123.tmp";
  const auto live = path_ / ".checkpoint-000000000004.4567.tmp";
  write_file(dead, "half");
  write_file(live, "half");
  const int fd = ::open(live.c_str(), O_RDWR);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  open().save(1, snapshot_of(1));
  ::close(fd);
  EXPECT_THAT(names_in(path_), ElementsAre(live.filename(), "checkpoint-000000000000.h5"));
}

// As a worker of Python's multiprocessing is; the lock is the open file's, of which the child has a copy.
TEST_F(Faults, ADirectoryIsFreeOnceItsOwnerEndsWhateverChildrenLive) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  auto directory = std::make_optional(open());
  const pid_t child = ::fork();
  if (child == 0) {
    directory.reset();  // must not give away what its parent holds
    if (::write(pipe[1], "x", 1) != 1) _exit(1);
    ::pause();
    _exit(0);
  }
  char is_running = 0;
  EXPECT_EQ(::read(pipe[0], &is_running, 1), 1);
  EXPECT_ERROR(open(), busy, {"another job has locked it, or another CheckpointDirectory"});
  directory.reset();
  EXPECT_NO_THROW(open());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace rota::test::faults_test
