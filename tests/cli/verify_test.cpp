// `rota verify`, as a user calls it.

#include <sys/file.h>

#include "cli/verbs.hpp"
#include "irregular_file.hpp"
#include "run_command.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"
#include "test.hpp"
#include "unprivileged.hpp"

namespace rota::test::verify_test {

using rota::test::Ended;
using rota::test::run_command;

class Verify : public ::testing::Test {
 protected:
  void save(int checkpoints) {
    rota::CheckpointDirectory directory({}, dir_.path(), {.keep_last = 9});
    for (int step = 1; step <= checkpoints; ++step) {
      const std::vector<std::int64_t> rows(4000, step);
      rota::Snapshot snapshot;
      snapshot.tensor("model/w", {4}, 1000, rows);
      snapshot.blob("state", "step " + std::to_string(step));
      directory.save(100 * step, snapshot);
    }
  }
  [[nodiscard]] std::string file(int serial) const {
    return (dir_ / ("checkpoint-00000000000" + std::to_string(serial) + ".h5")).string();
  }
  static void flip(const std::string& file, std::streamoff at) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(at);
    const auto value = static_cast<char>(stream.get() ^ 1);
    stream.seekp(at).put(value);
  }
  static Ended verify(const std::string& path) {
    return run_command("timeout 60 " ROTA_PROGRAMS
                       "/rota"
                       " verify " +
                       path);
  }
  [[nodiscard]] Ended verify() const { return verify(dir_.path().string()); }

  rota::test::TemporaryDirectory dir_;
};

TEST_F(Verify, SaysOfAGoodFileWhatItHolds) {
  save(1);
  const Ended ended = verify(file(0));
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output, AllOf(HasSubstr(file(0) + ": good"), HasSubstr("serial 0, step 100"),
                                  HasSubstr("1 rank; 1 tensor, 1 blob"), HasSubstr("GB/s")));
}

// What is printed, and, at the first of it, the removal of a file.
struct Dropping {
  static ssize_t write(void* self, const char* text, std::size_t bytes) {
    auto* dropping = static_cast<Dropping*>(self);
    dropping->text.append(text, bytes);
    std::filesystem::remove(dropping->file);
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
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file(0)));
  flip(file(0), size / 2);  // in the middle of the tensor
  flip(file(0), size - 1);  // the contents' last byte
  const Ended ended = verify(file(0));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("DAMAGED, 2 problems"), HasSubstr("checksum of its contents"),
                                  HasSubstr("the checksum of bytes")));
}

TEST_F(Verify, NamesWhatDamagedBytesHold) {
  save(1);
  flip(file(0), static_cast<std::streamoff>(std::filesystem::file_size(file(0))) / 2);
  EXPECT_THAT(verify(file(0)).output,
              AllOf(HasSubstr("of tensor \"model/w\""), HasSubstr("the rows of tensor")));
}

TEST_F(Verify, OfADirectoryFindsTheOneThatARestoreTakes) {
  save(3);
  flip(file(2), 5);
  const Ended ended = verify();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("3 checkpoints"), HasSubstr("000000000002.h5: DAMAGED"),
                                  HasSubstr("000000000001.h5: good"), HasSubstr("000000000000.h5: good"),
                                  HasSubstr("a restore would take checkpoint-000000000001.h5\n")));
  EXPECT_LT(ended.output.find("000000000002.h5"), ended.output.find("000000000001.h5"));
  EXPECT_EQ(rota::CheckpointDirectory({}, dir_.path()).latest()->info().serial, 1);
}

TEST_F(Verify, OfADirectoryTellsDeadSavesFromThoseUnderWay) {
  save(1);
  dir_.write(".checkpoint-000000000001.aa.tmp", "dead");
  const auto live = dir_.write(".checkpoint-000000000002.bb.tmp", "under way");
  const int fd = ::open(live.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const Ended ended = verify();
  ::close(fd);
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr(".aa.tmp: left by a save that died"),
                                  HasSubstr(".bb.tmp: a save under way, 9 bytes")));
}

// What the verification of `directory` prints to one who may not read everything.
std::string verified_as_nobody(const std::filesystem::path& directory) {
  return rota::test::error_as_nobody([&] {
    char* text = nullptr;
    std::size_t bytes = 0;
    std::FILE* out = ::open_memstream(&text, &bytes);
    rota::cli::verify(directory, out);
    std::fclose(out);
    throw rota::Error(rota::ErrorCode::io, text);
  });
}

TEST_F(Verify, OfADirectorySaysWhatItMayNotLookInto) {
  save(1);
  const auto temporary = dir_.write(".checkpoint-000000000001.aa.tmp", "dead");
  std::filesystem::permissions(temporary, std::filesystem::perms::none);
  EXPECT_THAT(verified_as_nobody(dir_.path()),
              HasSubstr(".aa.tmp: open " + temporary.string() + ": Permission denied"));
}

TEST_F(Verify, LeavesADirectoryToTheJobThatUsesIt) {
  save(1);
  const rota::CheckpointDirectory job({}, dir_.path());
  EXPECT_EQ(verify().code, 0);
}

TEST_F(Verify, SaysThatARestoreWouldFailWhereNoneIsGood) {
  save(2);
  flip(file(0), 5000);
  std::filesystem::rename(file(1), file(7));
  const Ended ended = verify();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("the file was renamed"), HasSubstr("a restore would fail: none"),
                                  Not(HasSubstr(": good"))));
}

TEST_F(Verify, PassesOverWhatIsNoRegularFileAndSaysWhatItIs) {
  save(1);
  for (const auto& kind : rota::test::irregular_kinds()) {
    kind.make(file(2));
    kind.make(dir_ / ".checkpoint-000000000003.aa.tmp");
    const Ended ended = verify();
    EXPECT_EQ(ended.code, 1) << kind.name;
    EXPECT_THAT(ended.output,
                AllOf(HasSubstr("000000000002.h5: DAMAGED, 1 problem\n    it is " + kind.called),
                      HasSubstr("a restore would take checkpoint-000000000000.h5\n"),
                      HasSubstr(".aa.tmp: it is " + kind.called)));
    const Ended inspected = run_command("timeout 60 " ROTA_PROGRAMS
                                        "/rota"
                                        " inspect " +
                                        file(2));
    EXPECT_EQ(inspected.code, 1) << kind.name;
    EXPECT_THAT(inspected.output, HasSubstr("it is " + kind.called));
    EXPECT_EQ(verify(file(2)).code, 1) << kind.name;
    for (const char* end : {"", ".target"}) {
      std::filesystem::remove(file(2) + end);
      std::filesystem::remove(dir_ / (std::string(".checkpoint-000000000003.aa.tmp") + end));
    }
  }
}

TEST_F(Verify, AndInspectNamesEachLoaderByItsKind) {
  const auto stream = [](std::int64_t length) {
    return std::make_shared<rota::test::NumberedStream>(std::vector<std::int64_t>{length});
  };
  rota::Snapshot snapshot;
  rota::save(rota::Loader(counting(100), {.shards = 4}), snapshot, "train");
  rota::save(rota::StreamLoader(stream(50), {}), snapshot, "logs");
  rota::save(rota::StreamLoader(rota::Dispatch{.source = stream(60), .shards = 3}, {}), snapshot, "a/pipe");
  snapshot.blob("loader/mine/state", "somebody else's");
  rota::CheckpointDirectory({}, dir_.path()).save(1, snapshot);
  const Ended ended = run_command("timeout 60 " ROTA_PROGRAMS
                                  "/rota"
                                  " inspect " +
                                  file(0));
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(
      ended.output,
      AllOf(HasSubstr("loader \"train\" is a Loader in epoch 0, with 0 samples of it consumed: 4 shards"),
            HasSubstr("loader \"logs\" is a StreamLoader\n  1 shards with fingerprint"),
            HasSubstr("loader \"a/pipe\" is a StreamLoader of a Dispatch\n  3 shards"),
            HasSubstr("loader \"mine\" cannot be read\n")));
}

TEST_F(Verify, FailsWhereNothingIsThere) {
  EXPECT_EQ(verify().code, 1);
  EXPECT_THAT(verify().output, HasSubstr("a restore would find nothing"));
  EXPECT_EQ(verify("/nowhere.h5").code, 1);
  EXPECT_THAT(verify("/nowhere.h5").output, HasSubstr("error: open /nowhere.h5"));
  EXPECT_EQ(verify("").code, 2);
}

}  // namespace rota::test::verify_test
