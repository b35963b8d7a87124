// A disk that is really full.

#include <sys/mount.h>

#include "ranks_fixture.hpp"
#include "saved_state.hpp"

namespace rota::test::full_disk_test {

constexpr std::int64_t kBytes = 900'000;

// A small file system in memory, for as long as a test lasts.
class SmallDisk : public RanksCheckpointTest {
 protected:
  ~SmallDisk() override {
    ranks::agree(comm(), "end a test", nullptr);
    if (rank() == 0) ::umount2(path_.c_str(), MNT_DETACH);
  }

  void mount(const char* options) {
    const bool fails =
        rank() == 0 && ::mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options) != 0;
    const std::string why = ranks::broadcast(comm(), std::string(fails ? std::strerror(errno) : ""));
    if (!why.empty()) GTEST_SKIP() << "cannot mount a file system here (" << why << "): needs CAP_SYS_ADMIN";
  }
  void at_root(const std::function<void()>& work) {
    ranks::agree(comm(), "prepare", nullptr);
    if (rank() == 0) work();
    ranks::agree(comm(), "prepare", nullptr);
  }

  fs::path checkpoints_ = path_ / "checkpoints";
};

class FullDisk : public SmallDisk {
 protected:
  void SetUp() override { mount("size=3m"); }

  // Leaves no room at all.
  void fill() {
    std::ofstream file(path_ / "ballast", std::ios::binary);
    const std::string block(4096, 'x');
    for (int i = 0; i < 1000 && file.write(block.data(), std::ssize(block)).flush(); ++i) continue;
    ASSERT_FALSE(file) << "the file system is not small";
  }

  // Also sees to it that nothing else is left in the directory.
  void expect_newest(CheckpointDirectory& directory, std::int64_t step) {
    const auto newest = directory.latest();
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->info().step, step);
    EXPECT_EQ(difference(*newest, kBytes), "");
    at_root([&] { EXPECT_THAT(names_in(checkpoints_), Each(EndsWith(".h5"))); });
  }

  // `save` is done with a directory, a step, and a state of it.
  void expect_told(const std::function<SaveReport(CheckpointDirectory&, std::int64_t, Snapshot)>& save) {
    CheckpointDirectory directory(comm(), checkpoints_);
    const auto attempt = [&](std::int64_t step, std::int64_t bytes) {
      EXPECT_EQ(save(directory, step, make_state(step, comm().world(), bytes)).info.step, step);
    };
    attempt(1, kBytes);
    EXPECT_ERROR_OF_ALL(attempt(2, 10 * kBytes), io, {"free some space"});
    expect_newest(directory, 1);
    at_root([&] { fill(); });
    EXPECT_ERROR_OF_ALL(attempt(3, kBytes), io, {"free some space"});
    expect_newest(directory, 1);
    at_root([&] { fs::remove(path_ / "ballast"); });
    attempt(4, kBytes);
    expect_newest(directory, 4);
  }
};

TEST_F(FullDisk, IsToldByAllRanksAndTheNextSaveSucceedsOnceThereIsSpace) {
  expect_told([](auto& directory, auto step, auto state) { return directory.save(step, state); });
}

TEST_F(FullDisk, IsToldOfASaveInTheBackgroundToo) {
  expect_told([](auto& directory, auto step, auto state) {
    directory.save_async(step, std::move(state));
    return directory.wait().value();
  });
}

class DiskOfFewFiles : public SmallDisk {
 protected:
  void SetUp() override { mount("size=3m,nr_inodes=5"); }  // the root, the directory, and three checkpoints
};

TEST_F(DiskOfFewFiles, IsToldAsOneThatIsFullAndTheNextSaveSucceedsOnceAFileIsGone) {
  CheckpointDirectory directory(comm(), checkpoints_, {.keep_last = 9});
  for (const std::int64_t step : {0, 1, 2}) directory.save(step, {});
  EXPECT_ERROR_OF_ALL(directory.save(3, {}), io, {"free some space"});
  EXPECT_EQ(directory.latest()->info().step, 2);
  at_root([&] { fs::remove(checkpoints_ / "checkpoint-000000000000.h5"); });
  EXPECT_EQ(directory.save(4, {}).info.serial, 3);
  EXPECT_EQ(directory.latest()->info().step, 4);
}

}  // namespace rota::test::full_disk_test
