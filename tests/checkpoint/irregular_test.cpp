// What is no regular file, under the name of a checkpoint, of a temporary, or of the directory: nothing waits
// for it, and nothing is lost by it.

#include "checkpoint_fixture.hpp"
#include "faulty_file_system.hpp"
#include "irregular_file.hpp"
#include "unprivileged.hpp"

namespace rota::test::irregular_test {

class Irregular : public CheckpointTest, public WithParamInterface<IrregularKind> {
 protected:
  Irregular() { end_in_a_minute(); }
  ~Irregular() override { ::alarm(0); }

  // Serial 0 is good, and serial 9 is none.
  void make() {
    open().save(1, {});
    GetParam().make(nine_);
  }
  std::string is_what() const { return "it is " + GetParam().called; }

  fs::path nine_ = path_ / "checkpoint-000000000009.h5";
};

TEST_P(Irregular, IsNotListedAndPassedOverWithAReasonByARestore) {
  make();
  auto directory = open();
  ASSERT_THAT(directory.list(), SizeIs(1));
  EXPECT_EQ(directory.list()[0].serial, 0);
  EXPECT_EQ(directory.latest()->info().serial, 0);
  ASSERT_THAT(directory.rejected(), SizeIs(1));
  EXPECT_THAT(directory.rejected()[0].reason, HasSubstr(is_what()));
  fs::remove(path_ / "checkpoint-000000000000.h5");
  EXPECT_ERROR(directory.latest(), corrupt, {is_what()});
}

TEST_P(Irregular, AskedForByNameIsAnErrorOrDamageThatSaysWhatItIs) {
  make();
  auto directory = open();
  EXPECT_ERROR(directory.open(9), corrupt, {nine_.string() + ": " + is_what()});
  EXPECT_ERROR(open_checkpoint(nine_), corrupt, {nine_.string() + ": " + is_what()});
  const auto found = verify_checkpoint(nine_);
  ASSERT_THAT(found.damage, SizeIs(1));
  EXPECT_THAT(found.damage[0].what, HasSubstr(is_what()));
  EXPECT_FALSE(found.info);
}

TEST_P(Irregular, TakesItsSerialAndStays) {
  make();
  auto directory = open({.keep_last = 2});
  EXPECT_EQ(directory.save(2, {}).info.serial, 10);
  EXPECT_EQ(directory.latest()->info().serial, 10);
  EXPECT_EQ(directory.save(3, {}).info.serial, 11);
  EXPECT_TRUE(fs::exists(fs::symlink_status(nine_)));
}

TEST_P(Irregular, UnderTheNameOfATemporaryIsLeftAlone) {
  const auto temporary = path_ / ".checkpoint-000000000003.0123.tmp";
  GetParam().make(temporary);
  EXPECT_EQ(open().save(1, {}).info.serial, 0);
  EXPECT_THAT(names_in(path_), Contains(temporary.filename()));
}

TEST_P(Irregular, InPlaceOfTheDirectoryIsAnErrorThatSaysWhatItIs) {
  const auto directory = path_ / "directory";
  GetParam().make(directory);
  if (GetParam().called == "a directory") {
    EXPECT_EQ(CheckpointDirectory({}, directory).save(1, {}).info.serial, 0);
    return;
  }
  EXPECT_ERROR(CheckpointDirectory({}, directory), io, {is_what()});
  EXPECT_ERROR(CheckpointDirectory({}, directory / "inside"), io, {directory.string()});
}

TEST_P(Irregular, InPlaceOfAFileThatWasListedIsPassedOver) {
  FaultyFileSystem system;
  auto directory = CheckpointDirectoryAccess::open({}, path_, {}, system);
  for (int step = 0; step < 2; ++step) directory.save(step, {});
  bool is_swapped = false;
  system.on_call = [&](std::string_view kind) {
    if (kind == "open" && !std::exchange(is_swapped, true)) {
      fs::remove(path_ / "checkpoint-000000000001.h5");
      GetParam().make(path_ / "checkpoint-000000000001.h5");
    }
    return 0;
  };
  EXPECT_EQ(directory.latest()->info().serial, 0);
  ASSERT_THAT(directory.rejected(), SizeIs(1));
  EXPECT_THAT(directory.rejected()[0].reason, HasSubstr(is_what()));
}

INSTANTIATE_TEST_SUITE_P(Each, Irregular, ValuesIn(irregular_kinds()),
                         [](const auto& test) { return test.param.name; });

using Regular = CheckpointTest;

TEST_F(Regular, FilesThatMayNotBeReadAreNoDamageAndNoOlderStateIsTaken) {
  for (int step = 0; step < 2; ++step) open().save(step, {});
  const fs::path newest = path_ / "checkpoint-000000000001.h5";
  ASSERT_EQ(::chmod(newest.c_str(), 0) + ::chmod(path_.c_str(), 0777), 0);
  const std::string error = error_as_nobody([&] { (void)open().latest(); });
  EXPECT_THAT(error, HasSubstr("io: open " + newest.string() + ": Permission denied"));
}

TEST_F(Regular, LinksToACheckpointAreAsGoodAsItCheckpointAreAsGoodAsIt) {
  open().save(1, {});
  fs::rename(path_ / "checkpoint-000000000000.h5", path_ / "archived");
  fs::create_symlink("archived", path_ / "checkpoint-000000000000.h5");
  EXPECT_EQ(open().latest()->info().step, 1);
}

}  // namespace rota::test::irregular_test
