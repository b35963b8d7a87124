// `rota verify`, as a user calls it.

#include <sys/file.h>

#include "cli/programs.hpp"
#include "cli/verbs.hpp"
#include "irregular_file.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"
#include "unprivileged.hpp"

namespace rota::test::verify_test {

class Verify : public ProgramTest {
 protected:
  void save(int checkpoints) const {
    CheckpointDirectory directory({}, dir_.path(), {.keep_last = 9});
    for (int step = 1; step <= checkpoints; ++step) {
      const Numbers rows(4000, step);
      Snapshot snapshot;
      snapshot.tensor("model/w", {4}, 1000, rows);
      snapshot.blob("state", fmt::format("step {}", step));
      directory.save(100 * step, snapshot);
    }
  }
  std::string file(int serial) const { return path(fmt::format("checkpoint-{:012}.h5", serial)); }
};

TEST_F(Verify, SaysOfAGoodFileWhatItHolds) {
  save(1);
  expect_says("verify " + file(0), 0,
              AllOf(HasSubstr(file(0) + ": good"), HasSubstr("serial 0, step 100"),
                    HasSubstr("1 rank; 1 tensor, 1 blob"), HasSubstr("GB/s")));
}

// What is printed, and, at the first of it, the removal of a file.
struct Dropping {
  static ssize_t write(void* self, const char* text, std::size_t bytes) {
    auto* dropping = static_cast<Dropping*>(self);
    dropping->text.append(text, bytes);
    fs::remove(dropping->file);
    return static_cast<ssize_t>(bytes);
  }
  std::string file;
  std::string text;
};

TEST_F(Verify, SaysWhatARunningJobHasDroppedMeanwhile) {
  save(3);
  Dropping dropping{.file = file(0), .text = {}};
  std::FILE* out = fopencookie(
      &dropping, "w", {.read = nullptr, .write = Dropping::write, .seek = nullptr, .close = nullptr});
  EXPECT_TRUE(rota::cli::verify(dir_.path(), out));
  std::fclose(out);
  EXPECT_THAT(dropping.text, AllOf(HasSubstr("checkpoint-000000000000.h5: dropped by now"),
                                   HasSubstr("a restore would take checkpoint-000000000002.h5")));
}

TEST_F(Verify, NamesAllDamageOfAFile) {
  save(1);
  const auto size = fs::file_size(file(0));
  flip(file(0), size / 2);  // in the middle of the tensor
  flip(file(0), size - 1);  // the contents' last byte
  expect_says("verify " + file(0), 1,
              AllOf(HasSubstr("DAMAGED, 2 problems"), HasSubstr("checksum of its contents"),
                    HasSubstr("the checksum of bytes")));
}

TEST_F(Verify, NamesWhatDamagedBytesHold) {
  save(1);
  flip(file(0), fs::file_size(file(0)) / 2);
  expect_says("verify " + file(0), 1,
              AllOf(HasSubstr("of tensor \"model/w\""), HasSubstr("the rows of tensor")));
}

TEST_F(Verify, OfADatasetSaysWhatElseToUse) {
  expect_says("verify .", 1, HasSubstr("0 checkpoints\na restore would find nothing"));
  write("a.tar", "");
  expect_says("verify .", 1,
              AllOf(StartsWith("error: verify .: it holds a.tar, and no checkpoints"), HasSubstr("rota ls")));
}

TEST_F(Verify, OfADirectoryFindsTheOneThatARestoreTakes) {
  save(3);
  flip(file(2), 5);
  expect_says("verify .", 1,
              AllOf(HasSubstr("3 checkpoints"), HasSubstr("000000000000.h5: good"),
                    ContainsRegex("000000000002.h5: DAMAGED(.|\n)*000000000001.h5: good"),
                    HasSubstr("a restore would take checkpoint-000000000001.h5\n")));
  EXPECT_EQ(CheckpointDirectory({}, dir_.path()).latest()->info().serial, 1);
}

TEST_F(Verify, OfADirectoryTellsDeadSavesFromThoseUnderWay) {
  save(1);
  dir_.write(".checkpoint-000000000001.aa.tmp", "dead");
  const auto live = dir_.write(".checkpoint-000000000002.bb.tmp", "under way");
  const int fd = ::open(live.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  expect_says(
      "verify .", 0,
      AllOf(HasSubstr(".aa.tmp: left by a save that died"), HasSubstr(".bb.tmp: a save under way, 9 bytes")));
  ::close(fd);
}

// What the verification of `directory` prints to one who may not read everything.
std::string verified_as_nobody(const fs::path& directory) {
  return error_as_nobody([&] {
    char* text = nullptr;
    std::size_t bytes = 0;
    std::FILE* out = ::open_memstream(&text, &bytes);
    rota::cli::verify(directory, out);
    std::fclose(out);
    throw Error(io, text);
  });
}

TEST_F(Verify, OfADirectorySaysWhatItMayNotLookInto) {
  save(1);
  const auto temporary = dir_.write(".checkpoint-000000000001.aa.tmp", "dead");
  fs::permissions(temporary, fs::perms::none);
  EXPECT_THAT(verified_as_nobody(dir_.path()),
              HasSubstr(".aa.tmp: open " + temporary.string() + ": Permission denied"));
}

TEST_F(Verify, LeavesADirectoryToTheJobThatUsesIt) {
  save(1);
  const CheckpointDirectory job({}, dir_.path());
  EXPECT_EQ(rota("verify .").code, 0);
}

TEST_F(Verify, SaysThatARestoreWouldFailWhereNoneIsGood) {
  save(2);
  flip(file(0), 5000);
  fs::rename(file(1), file(7));
  expect_says("verify .", 1,
              AllOf(HasSubstr("the file was renamed"), HasSubstr("a restore would fail: none"),
                    Not(HasSubstr(": good"))));
}

TEST_F(Verify, PassesOverWhatIsNoRegularFileAndSaysWhatItIs) {
  save(1);
  for (const auto& kind : irregular_kinds()) {
    kind.make(file(2));
    kind.make(dir_ / ".checkpoint-000000000003.aa.tmp");
    expect_says("verify .", 1,
                AllOf(HasSubstr("000000000002.h5: DAMAGED, 1 problem\n    it is " + kind.called),
                      HasSubstr("a restore would take checkpoint-000000000000.h5\n"),
                      HasSubstr(".aa.tmp: it is " + kind.called)));
    expect_says("inspect " + file(2), 1, HasSubstr("it is " + kind.called));
    EXPECT_EQ(rota("verify " + file(2)).code, 1) << kind.name;
    for (const char* end : {"", ".target"}) {
      fs::remove(file(2) + end);
      fs::remove(dir_ / (std::string(".checkpoint-000000000003.aa.tmp") + end));
    }
  }
}

TEST_F(Verify, AndInspectNamesEachLoaderByItsKind) {
  const auto stream = [](std::int64_t length) { return std::make_shared<NumberedStream>(Numbers{length}); };
  Snapshot snapshot;
  rota::save(Loader(counting(100), {.shards = 4}), snapshot, "train");
  rota::save(StreamLoader(stream(50), {}), snapshot, "logs");
  rota::save(StreamLoader(Dispatch{.source = stream(60), .shards = 3}, {}), snapshot, "a/pipe");
  snapshot.blob("loader/mine/state", "somebody else's");
  CheckpointDirectory({}, dir_.path()).save(1, snapshot);
  expect_says("inspect " + file(0), 0,
              AllOf(HasSubstr("loader \"train\" is a Loader\n"), HasSubstr("4 shards, interleave"),
                    HasSubstr("loader \"logs\" is a StreamLoader\n  1 shards with fingerprint"),
                    HasSubstr("loader \"a/pipe\" is a StreamLoader of a Dispatch\n  3 shards"),
                    HasSubstr("loader \"mine\" cannot be read\n")));
}

TEST_F(Verify, FindsALoaderWhoseCursorsAreNotThoseOfItsPosition) {
  save(1);
  Loader loader(counting(100), {.global_batch_size = 7, .shards = 4});
  Numbers cursors(8);
  loader.cursors(0, cursors);
  (void)loader.next();
  Snapshot snapshot;
  snapshot.tensor("loader/main/cursors", {2}, 4, cursors);
  snapshot.blob("loader/main/state", state(loader));
  CheckpointDirectory({}, dir_.path()).save(1, snapshot);
  expect_says(
      "verify .", 1,
      AllOf(HasSubstr("DAMAGED, 1 problem"), HasSubstr("its cursors are not those of epoch 0, sample 7"),
            HasSubstr("a restore would take checkpoint-000000000000.h5\n")));
}

TEST_F(Verify, FailsWhereNothingIsThere) {
  expect_says("verify .", 1, HasSubstr("a restore would find nothing"));
  expect_says("verify /nowhere.h5", 1, HasSubstr("error: open /nowhere.h5"));
  EXPECT_EQ(rota("verify").code, 2);
}

}  // namespace rota::test::verify_test
