// What processes of a node know of one another's files, and what becomes of that when one is killed.

#include "source/shared_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>

namespace rota::test {
namespace {

using State = SharedTable::State;

constexpr std::int64_t kBytes = 1000;

// Runs `work` in a process of its own, which is then killed, or kills itself.
void in_a_killed_process(const std::function<void()>& work) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

class SharedTableTest : public testing::Test {
 protected:
  SharedTable::Found claim(std::size_t i) { return table_.claim(i, kBytes, Process::self()); }
  // Makes file `i`, which is then here.
  void make(std::size_t i) {
    ASSERT_EQ(claim(i).state, State::absent);
    table_.publish(i, {});
  }
  [[nodiscard]] State state(std::size_t i) {
    const State found = claim(i).state;
    if (found == State::absent) table_.give_up(i);
    return found;
  }

  SharedTable table_{mpi::Nodes(), 10, 3 * kBytes};
};

TEST_F(SharedTableTest, OneIsToMakeAFileAndOthersWait) {
  EXPECT_EQ(claim(0).state, State::absent);
  EXPECT_EQ(claim(0).state, State::coming);
  table_.publish(0, {.process = 7, .descriptor = 9});
  const auto found = claim(0);
  EXPECT_EQ(found.state, State::here);
  EXPECT_EQ(found.address.process, 7);
  EXPECT_EQ(found.address.descriptor, 9);
}

TEST_F(SharedTableTest, WhatIsGivenUpIsForTheNext) {
  (void)claim(0);
  table_.give_up(0);
  EXPECT_EQ(table_.usage().bytes, 0);
  EXPECT_EQ(claim(0).state, State::absent);
}

TEST_F(SharedTableTest, AFileThatIsComingFromAProcessThatDiesIsForTheNext) {
  in_a_killed_process([&] { (void)claim(3); });
  const auto found = claim(3);
  EXPECT_EQ(found.state, State::coming);
  table_.forget_if_dead(3, found.version);
  EXPECT_EQ(claim(3).state, State::absent);
  table_.forget_if_dead(3, found.version + 1);
  EXPECT_EQ(claim(3).state, State::coming);
  EXPECT_EQ(table_.usage().bytes, kBytes);
}

// Whatever each of them was about.
TEST_F(SharedTableTest, ProcessesThatAreKilledAtAnyMomentLeaveATableThatWorks) {
  make(0);
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    const bool is_child = child == 0;
    // NOLINTNEXTLINE(bugprone-infinite-loop): until it is killed
    while (is_child) {
      if (claim(1).state == State::absent) table_.publish(1, {});
      table_.begin_use(2, SharedTable::kNoRound);
      (void)table_.end_use(2);
      table_.forget(1, table_.version(1));
    }
    for (std::uint32_t seen = table_.changes(); table_.changes() - seen < 50;) table_.wait(table_.changes());
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const auto found = claim(1);
    table_.forget(1, found.version);
    EXPECT_EQ(state(0), State::here);
    EXPECT_EQ(table_.usage().bytes, kBytes);
  }
}

TEST_F(SharedTableTest, WhatNobodyUsesGoesWhenThereIsTooMuch) {
  for (const std::size_t i : {0U, 1U, 2U}) make(i);
  table_.begin_use(1, SharedTable::kNoRound);
  table_.touch(0);
  make(3);
  EXPECT_EQ(state(2), State::absent);
  make(4);
  EXPECT_EQ(state(0), State::absent);
  EXPECT_EQ(state(1), State::here);
  EXPECT_EQ(table_.usage().peak_bytes, 3 * kBytes);
}

TEST_F(SharedTableTest, WhatAllHaveUsedIsDropped) {
  make(0);
  table_.begin_use(0, SharedTable::kNoRound);
  table_.begin_use(0, SharedTable::kNoRound);
  (void)table_.end_use(0);
  EXPECT_EQ(state(0), State::here);
  (void)table_.end_use(0);
  EXPECT_EQ(state(0), State::absent);
}

TEST_F(SharedTableTest, WhatComesWhenAllHaveUsedItIsDroppedAtOnce) {
  (void)claim(0);
  table_.begin_use(0, SharedTable::kNoRound);
  (void)table_.end_use(0);
  const std::uint32_t version = table_.publish(0, {});
  EXPECT_NE(table_.version(0), version);
  EXPECT_EQ(state(0), State::absent);
  make(0);
  EXPECT_EQ(state(0), State::here);
}

TEST_F(SharedTableTest, WaitingEndsWhenSomethingChanges) {
  const std::uint32_t seen = table_.changes();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    make(0);
    ::_exit(0);
  }
  while (table_.changes() == seen) table_.wait(seen);
  EXPECT_EQ(state(0), State::here);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace rota::test
