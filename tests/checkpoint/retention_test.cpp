// Which checkpoints a directory keeps.

#include "retention.hpp"

#include "checkpoint_fixture.hpp"
#include "messages.hpp"

namespace rota::test::retention_test {

class Retention : public CheckpointTest {
 protected:
  static Numbers serials(CheckpointDirectory& directory) {
    Numbers found;
    for (const auto& info : directory.list()) found.push_back(info.serial);
    return found;
  }
};

TEST_F(Retention, KeepsTheLastAndEveryMilestone) {
  auto directory = open({.keep_last = 2, .keep_every = 40});
  for (int step = 30; step <= 140; step += 10) directory.save(step, {});  // serial 0 on
  EXPECT_THAT(serials(directory), ElementsAre(1, 5, 9, 10, 11));
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

TEST_F(Retention, AJobThatForgotToRestoreLeavesTheRunThatItShouldHaveGoneOnWith) {
  {
    auto run = open();
    for (int step : {100, 200}) run.save(step, {});
  }
  const SinkMessages told;
  auto forgot = open();
  for (int step : {10, 20, 30}) forgot.save(step, {});
  EXPECT_THAT(serials(forgot), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(told.lines,
              ElementsAre(AllOf(HasSubstr("newer than what was restored: 1, 0"), HasSubstr("restore_all"),
                                HasSubstr("checkpoint-000000000002.h5"))));
}

TEST_F(Retention, ARunOverItsRestartsIsOne) {
  const SinkMessages told;
  std::set<std::string> runs;
  for (int start = 0; start < 6; ++start) {
    auto directory = open();
    directory.latest();
    for (int k = 0; k <= start % 3; ++k) runs.insert(directory.save(start, {}).info.run_id);
    EXPECT_LE(serials(directory).size(), 3U);
  }
  EXPECT_THAT(runs, SizeIs(1));
  EXPECT_THAT(told.lines, IsEmpty());
}

TEST_F(Retention, WhatARunThatWentBackLeftStaysOverRestarts) {
  const SinkMessages told;
  auto first = std::make_optional(open({.keep_last = 3}));
  for (int step : {10, 20, 30}) first->save(step, {});
  first.reset();
  for (const int start : {0, 1}) {
    auto directory = open({.keep_last = 1});
    if (start == 0) static_cast<void>(directory.open(0));
    if (start == 1) EXPECT_EQ(directory.latest()->info().step, 13);
    for (int step : {start == 0 ? 9 : 13, 12, 13}) directory.save(step, {});
    const Numbers kept = {0, 1, 2, 5, 8};
    EXPECT_EQ(serials(directory), std::vector(kept.begin(), kept.end() - 1 + start));
  }
  EXPECT_THAT(told.lines,
              ElementsAre(AllOf(HasSubstr("3.h5 is of step 9"), HasSubstr("all states")),
                          AllOf(HasSubstr("restored: 2, 1. They stay."), Not(HasSubstr("restore_all"))),
                          HasSubstr("restored: 2, 1, 0. They stay."), HasSubstr("7.h5 is of step 12")));
}

TEST_F(Retention, ALookAtAnOlderOneAndADamagedOneChangeNoRun) {
  const SinkMessages told;
  std::string run;
  {
    auto directory = open({.keep_last = 3});
    for (int step = 0; step < 4; ++step) run = directory.save(step, {}).info.run_id;
  }
  const fs::path newest = path_ / "checkpoint-000000000003.h5";
  flip(newest, fs::file_size(newest) / 2);
  auto directory = open({.keep_last = 1});
  EXPECT_EQ(directory.latest()->info().serial, 2);
  static_cast<void>(directory.open(1));
  EXPECT_EQ(directory.save(4, {}).info.run_id, run);
  static_cast<void>(directory.latest());
  directory.save(5, {});
  EXPECT_THAT(serials(directory), ElementsAre(4, 5));
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("newer than what was restored: 3. They stay.")));
}

TEST_F(Retention, WhatCannotBeReadStays) {
  { open().save(1, {}); }
  write_file(path_ / "checkpoint-000000000007.h5", "damaged");
  fs::create_directory(path_ / "checkpoint-000000000008.h5");
  for (int start = 0; start < 3; ++start) {
    auto directory = open({.keep_last = 1});
    EXPECT_TRUE(directory.latest());
    for (int step : {2, 3}) directory.save(step, {});
  }
  EXPECT_THAT(names_in(path_), IsSupersetOf({"checkpoint-000000000007.h5", "checkpoint-000000000008.h5"}));
  EXPECT_THAT(names_in(path_), SizeIs(4));
}

TEST(ToDrop, NeverNamesTheLastThatWasVerified) {
  // Serial 1 was read, and 2 to 4 were saved since; 4 just now.
  using checkpoint::to_drop;
  const std::vector<checkpoint::Present> present{{4, 40}, {3, 30}, {2, 20}, {1, 10}};
  EXPECT_THAT(to_drop(present, {.keep_last = 2}, 1), ElementsAre(2));
  EXPECT_THAT(to_drop(present, {.keep_last = 1, .keep_every = 20}, 1), ElementsAre(3));
  EXPECT_THAT(to_drop(present, {.keep_last = 9}, 1), IsEmpty());
  EXPECT_THAT(to_drop(present, {.keep_last = 2}, -1), ElementsAre(2, 1));
}

}  // namespace rota::test::retention_test
