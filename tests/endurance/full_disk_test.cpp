// A disk that is really full.

#include <sys/mount.h>

#include "checkpoint/checkpoint_fixture.hpp"
#include "launch.hpp"
#include "test.hpp"

namespace rota::test::full_disk_test {

// A small file system in memory, for as long as a test lasts.
class SmallDisk : public ::testing::Test {
 protected:
  ~SmallDisk() override {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }

  void mount(const char* options) {
    std::filesystem::create_directories(path_);
    is_mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
    if (!is_mounted_) {
      GTEST_SKIP() << "cannot mount a small file system here (" << std::strerror(errno)
                   << "): run it as root with CAP_SYS_ADMIN";
    }
  }

  rota::test::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "disk";
  bool is_mounted_ = false;
};

class FullDisk : public SmallDisk,
                 public ::testing::WithParamInterface<std::tuple<int, std::string, std::string>> {
 protected:
  void SetUp() override { mount("size=3m"); }

  rota::test::Launched save() {
    const auto& [ranks, writer, how] = GetParam();
    return rota::test::launch(ranks, "disk", directory_ / "report",
                              (path_ / "checkpoints").string() + " " + writer + " " + how);
  }
};

TEST_P(FullDisk, IsToldByAllRanksAndTheNextSaveSucceedsOnceThereIsSpace) {
  const auto launched = save();
  EXPECT_EQ(launched.ended.code, 0) << launched.ended.output;
  for (const auto& said : launched.reports) {
    ASSERT_EQ(said.size(), 7U) << launched.ended.output;
    EXPECT_EQ(said, launched.reports.front());
    EXPECT_EQ(said[0], "first: ok 1");
    EXPECT_THAT(said[1], AllOf(StartsWith("too large: io: "), HasSubstr("free some space")));
    EXPECT_EQ(said[2], "after it: ok 1");
    EXPECT_THAT(said[3], AllOf(StartsWith("full: io: "), HasSubstr("free some space")));
    EXPECT_EQ(said[4], "while full: ok 1");
    EXPECT_EQ(said[5], "again: ok 4");
    EXPECT_EQ(said[6], "at the end: ok 4");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FullDisk,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values("direct", "collective"),
                                            ::testing::Values("sync", "async")),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + std::get<1>(test.param) +
                                  std::get<2>(test.param);
                         });

class DiskOfFewFiles : public SmallDisk {
 protected:
  void SetUp() override { mount("size=3m,nr_inodes=5"); }  // the root, the directory, and three checkpoints
};

TEST_F(DiskOfFewFiles, IsToldAsOneThatIsFullAndTheNextSaveSucceedsOnceAFileIsGone) {
  rota::CheckpointDirectory directory({}, path_ / "checkpoints", {.keep_last = 9});
  for (const std::int64_t step : {0, 1, 2}) directory.save(step, {});
  EXPECT_THAT(rota::test::thrown_error([&] { directory.save(3, {}); }),
              rota::test::IsError(rota::ErrorCode::io, "free some space"));
  EXPECT_EQ(directory.latest()->info().step, 2);
  std::filesystem::remove(path_ / "checkpoints/checkpoint-000000000000.h5");
  EXPECT_EQ(directory.save(4, {}).info.serial, 3);
  EXPECT_EQ(directory.latest()->info().step, 4);
}

}  // namespace rota::test::full_disk_test
