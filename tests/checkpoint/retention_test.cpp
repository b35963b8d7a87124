// Which checkpoints a directory keeps.

#include "retention.hpp"
#include "checkpoint_fixture.hpp"

namespace rota::test::retention_test {

class Retention : public CheckpointTest {
 protected:
  static std::vector<std::int64_t> serials(CheckpointDirectory& directory) {
    std::vector<std::int64_t> found;
    for (const auto& info : directory.list()) found.push_back(info.serial);
    return found;
  }
};

TEST_F(Retention, KeepsTheLastAndEveryMilestone) {
  auto directory = open({.keep_last = 2, .keep_every = 4});
  for (int step = 0; step < 11; ++step) directory.save(step, {});
  EXPECT_THAT(serials(directory), ElementsAre(0, 4, 8, 9, 10));
}

TEST_F(Retention, ListsOldestFirstWhatTheCommitPagesSayAndCountsNoDamagedOnes) {
  auto directory = open({.keep_last = 2});
  for (const int step : {7, 8}) directory.save(step, {});
  write_file(path_ / "checkpoint-000000000001.h5", "damaged");
  directory.save(9, {});
  EXPECT_THAT(serials(directory), ElementsAre(0, 2));
  EXPECT_EQ(directory.list()[1].step, 9);
}

TEST_F(Retention, NumbersOnAboveDamagedAndAbandonedFiles) {
  write_file(path_ / "checkpoint-000000000041.h5", "damaged");
  auto directory = open();
  EXPECT_EQ(directory.save(1, {}).info.serial, 42);
  const auto older = directory.open(42);
  EXPECT_EQ(directory.save(2, {}).info.serial, 43);
  fs::remove(path_ / "checkpoint-000000000043.h5");
  EXPECT_EQ(directory.save(3, {}).info.serial, 44);
}

TEST_F(Retention, ARunThatWentBackIsTheNewest) {
  auto directory = open({.keep_last = 10});
  for (int step : {10, 20, 30}) directory.save(step, {});
  const auto back = directory.open(0);
  const auto info = directory.save(11, {}).info;
  EXPECT_EQ(info.parent, 0);
  EXPECT_EQ(directory.latest()->info().step, 11);
}

TEST_F(Retention, TheLastThatWasReadIsKeptUntilALaterOneIs) {
  auto directory = open({.keep_last = 1});
  directory.save(0, {});
  EXPECT_TRUE(directory.latest());
  for (int step = 1; step < 4; ++step) directory.save(step, {});
  EXPECT_THAT(serials(directory), ElementsAre(0, 3));
  EXPECT_TRUE(directory.latest());
  directory.save(4, {});
  EXPECT_THAT(serials(directory), ElementsAre(3, 4));
}

TEST(ToDrop, NeverNamesTheLastThatWasVerified) {
  // Serial 1 was read, and 2 to 4 were saved since; 4 just now.
  using checkpoint::to_drop;
  const std::vector<checkpoint::Present> present{{4, true}, {3, true}, {2, true}, {1, true}};
  EXPECT_THAT(to_drop(present, {.keep_last = 2}, 1), ElementsAre(2));
  EXPECT_THAT(to_drop(present, {.keep_last = 1, .keep_every = 2}, 1), ElementsAre(3));
  EXPECT_THAT(to_drop(present, {.keep_last = 9}, 1), IsEmpty());
  EXPECT_THAT(to_drop(present, {.keep_last = 2}, -1), ElementsAre(2, 1));
}

}  // namespace rota::test::retention_test
