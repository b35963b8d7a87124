// What processes of a node know of one another's files, and what becomes of that when one is killed.

#include "formats/shared_table.hpp"
#include "internal_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

namespace rota::test {
namespace {

using State = SharedTable::State;

constexpr std::int64_t kBytes = 1000;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

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

TEST(Process, IsAliveUntilItEndsThoughNobodyHasWaitedForIt) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Process self = Process::self();
    ::_exit(::write(pipe[1], &self, sizeof(self)) == sizeof(self) && self.is_alive() ? 0 : 1);
  }
  Process process;
  ASSERT_EQ(::read(pipe[0], &process, sizeof(process)), sizeof(process));
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ended.si_status, 0);
  EXPECT_EQ(process.id, child);
  EXPECT_FALSE(process.is_alive());
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  for (const int end : pipe) ::close(end);
}

TEST(Process, IsNotAnotherThatHasItsNumber) {
  Process before = Process::self();
  EXPECT_TRUE(before.is_alive());
  --before.started;
  EXPECT_FALSE(before.is_alive());
}

class SharedTableTest : public testing::Test {
 protected:
  SharedTable::Found claim(std::size_t i) { return table_.claim(i, kBytes, Process::self()); }
  // Makes file `i`, which is then here.
  void make(std::size_t i) {
    ASSERT_EQ(claim(i).state, State::absent);
    table_.publish(i, {}, Process::self());
  }
  [[nodiscard]] State state(std::size_t i) {
    const State found = claim(i).state;
    if (found == State::absent) table_.give_up(i, Process::self());
    return found;
  }

  SharedTable table_{mpi::Nodes(), 10, 3 * kBytes};
};

TEST_F(SharedTableTest, OneIsToMakeAFileAndOthersWait) {
  EXPECT_EQ(claim(0).state, State::absent);
  EXPECT_EQ(claim(0).state, State::coming);
  table_.publish(0, {.process = 7, .descriptor = 9}, Process::self());
  const auto found = claim(0);
  EXPECT_EQ(found.state, State::ready);
  EXPECT_EQ(found.address.process, 7);
  EXPECT_EQ(found.address.descriptor, 9);
}

TEST_F(SharedTableTest, WhatIsGivenUpIsForTheNext) {
  (void)claim(0);
  table_.give_up(0, Process::self());
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
      if (claim(1).state == State::absent) table_.publish(1, {}, Process::self());
      table_.begin_use(2, SharedTable::kNoRound);
      (void)table_.end_use(2, true);
      table_.forget(1, table_.version(1));
    }
    for (std::uint32_t seen = table_.changes(); table_.changes() - seen < 50;) table_.wait(table_.changes());
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const auto found = claim(1);
    table_.forget(1, found.version);
    EXPECT_EQ(state(0), State::ready);
    EXPECT_EQ(table_.usage().bytes, kBytes);
  }
}

// Some containers forbid it.
bool can_trace() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Runs `work` in a process that is killed behind so many instructions. False where it has ended before.
bool in_a_process_killed_after(int instructions, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    work();
    ::raise(SIGSTOP);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  bool has_ended = !WIFSTOPPED(status);
  for (int i = 0; i < instructions && !has_ended; ++i) {
    EXPECT_EQ(::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    has_ended = !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return !has_ended;
}

TEST_F(SharedTableTest, AProcessThatIsKilledBehindAnyInstructionLeavesATableThatCountsRight) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer's own instructions are too many";
  if (!can_trace()) GTEST_SKIP() << "tracing is forbidden here";
  const Process self = Process::self();
  const std::array<std::function<void()>, 3> steps = {[&] { (void)table_.claim(1, kBytes, self); },
                                                      [&] { (void)table_.publish(1, {}, self); },
                                                      [&] { table_.forget(1, table_.version(1)); }};
  for (std::size_t last = 0; last < steps.size(); ++last) {
    bool is_killed = true;
    for (int instructions = 0; is_killed; ++instructions) {
      SCOPED_TRACE(instructions);
      for (std::size_t k = 0; k < last; ++k) steps[k]();
      is_killed = in_a_process_killed_after(instructions, steps[last]);
      table_.forget(1, claim(1).version);
      ASSERT_EQ(table_.usage().bytes, 0) << "step " << last;
      for (const std::size_t i : {2U, 3U, 4U, 5U}) make(i);
      ASSERT_EQ(table_.usage().bytes, 3 * kBytes) << "what nobody uses goes as before";
      for (const std::size_t i : {3U, 4U, 5U}) table_.forget(i, table_.version(i));
    }
  }
}

TEST_F(SharedTableTest, ProcessesThatAreKilledLeaveALockThatKeepsOthersApart) {
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    const bool is_child = child == 0;
    // NOLINTNEXTLINE(bugprone-infinite-loop): until it is killed
    while (is_child) (void)table_.usage();
    for (int k = 0; k < 10'000; ++k) (void)table_.usage();
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(table_.usage().bytes, 0);
  }
  {
    const Process self = Process::self();
    std::vector<std::jthread> threads;
    for (std::size_t file = 0; file < 4; ++file) {
      threads.emplace_back([&, file] {
        for (int k = 0; k < 20'000; ++k) {
          (void)table_.claim(file, kBytes, self);
          table_.give_up(file, self);
        }
      });
    }
  }
  EXPECT_EQ(table_.usage().bytes, 0);
}

TEST_F(SharedTableTest, WhatNobodyUsesGoesWhenThereIsTooMuch) {
  for (const std::size_t i : {0U, 1U, 2U}) make(i);
  table_.begin_use(1, SharedTable::kNoRound);
  table_.touch(0);
  make(3);
  for (const std::size_t i : {0U, 1U, 2U, 3U}) EXPECT_EQ(state(i), State::ready) << i;
  make(4);
  for (const std::size_t i : {0U, 1U, 3U, 4U}) EXPECT_EQ(state(i), State::ready) << i;
  EXPECT_EQ(table_.usage().bytes, 4 * kBytes);  // with what is used, which comes on top
  EXPECT_EQ(table_.usage().peak_bytes, 4 * kBytes);
  EXPECT_EQ(state(2), State::absent);
}

TEST_F(SharedTableTest, WhatAllHaveUsedIsDropped) {
  make(0);
  table_.begin_use(0, SharedTable::kNoRound);
  table_.begin_use(0, SharedTable::kNoRound);
  (void)table_.end_use(0, true);
  EXPECT_EQ(state(0), State::ready);
  (void)table_.end_use(0, true);
  EXPECT_EQ(state(0), State::absent);
}

TEST_F(SharedTableTest, WhatAllHaveUsedInPartStaysForTheRest) {
  make(0);
  for (const bool was_all : {false, false, true}) {
    EXPECT_EQ(state(0), State::ready);
    table_.begin_use(0, SharedTable::kNoRound);
    (void)table_.end_use(0, was_all);
  }
  EXPECT_EQ(state(0), State::absent);
}

// A process that others take for dead, in a container of its own.
TEST_F(SharedTableTest, WhatWasTakenFromAProcessIsNotPublishedByIt) {
  const Process slow{.id = 1, .started = 1};
  const auto found = table_.claim(0, kBytes, slow);
  table_.forget(0, found.version);
  ASSERT_EQ(claim(0).state, State::absent);
  EXPECT_EQ(table_.publish(0, {}, slow), std::nullopt);
  table_.give_up(0, slow);
  EXPECT_EQ(claim(0).state, State::coming);
  EXPECT_TRUE(table_.publish(0, {}, Process::self()));
  EXPECT_EQ(table_.usage().bytes, kBytes);
}

TEST(Process, IsNotTakenForDeadWhereDescriptorsAreShort) {
  const Process self = Process::self();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_alive = self.is_alive();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(is_alive);
  EXPECT_FALSE((Process{.id = self.id, .started = self.started + 1}).is_alive());
}

TEST_F(SharedTableTest, WhatComesWhenAllHaveUsedItIsDroppedAtOnce) {
  (void)claim(0);
  table_.begin_use(0, SharedTable::kNoRound);
  (void)table_.end_use(0, true);
  const auto version = table_.publish(0, {}, Process::self());
  ASSERT_TRUE(version);
  EXPECT_NE(table_.version(0), *version);
  EXPECT_EQ(state(0), State::absent);
  make(0);
  EXPECT_EQ(state(0), State::ready);
}

TEST_F(SharedTableTest, WhatComesWhenAllHaveUsedItStaysForWhoUsesItAgain) {
  (void)claim(0);
  table_.begin_use(0, SharedTable::kNoRound);
  table_.begin_use(0, table_.end_use(0, true));
  EXPECT_EQ(table_.publish(0, {}, Process::self()), table_.version(0));
  EXPECT_EQ(state(0), State::ready);
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
  EXPECT_EQ(state(0), State::ready);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace rota::test
