// What processes of a node know of one another's files, and what becomes of that when one is killed.

#include "formats/shared_files.hpp"
#include "source/reading.hpp"

namespace rota::test::shared_table_test {

using State = SharedTable::State;

constexpr std::int64_t kBytes = 1000;

class SharedTableTest : public Test {
 protected:
  SharedTable::Found claim(std::size_t i) { return table_.claim(i, kBytes); }
  // Makes file `i`, which is then here.
  void make(std::size_t i) {
    const auto found = claim(i);
    ASSERT_EQ(found.state, State::absent);
    table_.publish(i, {}, found.version, true);
  }
  // All ranks, which are one, use it; `was_all`: all of it.
  void use(std::size_t i, bool was_all) {
    table_.begin_use(i, SharedTable::kNoRound);
    make(i);
    (void)table_.end_use(i, was_all);
  }
  State state(std::size_t i) {
    const auto found = claim(i);
    if (found.state == State::absent) table_.forget(i, found.version);
    return found.state;
  }
  void expect_ready(std::initializer_list<std::size_t> files) {
    for (const std::size_t i : files) EXPECT_EQ(state(i), State::ready) << i;
  }

  SharedTable table_{ranks::Nodes(), 10, 3 * kBytes};
};

TEST_F(SharedTableTest, OneIsToMakeAFileAndOthersWait) {
  const auto claimed = claim(0);
  EXPECT_EQ(claimed.state, State::absent);
  EXPECT_EQ(claim(0).state, State::coming);
  table_.publish(0, {.process = 7, .descriptor = 9}, claimed.version, true);
  const auto found = claim(0);
  EXPECT_EQ(found.state, State::ready);
  EXPECT_EQ(found.address.process, 7);
  EXPECT_EQ(found.address.descriptor, 9);

  table_.forget(1, claim(1).version);  // what is given up is for the next
  EXPECT_EQ(table_.usage().bytes, kBytes);
  EXPECT_EQ(claim(1).state, State::absent);
}

// At whatever it was: the others go on, and what they count is what there is.
TEST_F(SharedTableTest, AProcessThatIsKilledAtItsWorkStopsNobody) {
  for (int round = 0; round < 300; ++round) {
    SharedTable table(ranks::Nodes(), 10, 3 * kBytes, 1s);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (std::size_t i = 0;; i = (i + 1) % 10) {
        const auto found = table.claim(i, kBytes);
        table.begin_use(i, SharedTable::kNoRound);
        if (i % 3 == 0) table.publish(i, {}, found.version, true);
        (void)table.end_use(i, true);
        if (i % 2 == 0) table.forget(i, found.version);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 3 * round));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    std::int64_t ready = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      if (i == 10) ready = 0;  // what has made room for others is gone
      const auto found = table.claim(i % 10, kBytes);
      ready += found.state == State::ready ? 1 : 0;
      ASSERT_NE(found.state, State::coming) << "of one that is dead";
      if (found.state == State::absent) table.forget(i % 10, found.version);
    }
    EXPECT_EQ(table.usage().bytes, ready * kBytes);
  }
}

// The table of a rank that dies, as another process sees it.
TEST_F(SharedTableTest, WhatADeadRankUsedIsNotUsedAnyMore) {
  std::array<int, 2> answer{};
  ASSERT_EQ(::pipe(answer.data()), 0);
  const pid_t rank = ::fork();
  ASSERT_GE(rank, 0);
  if (rank == 0) {
    SharedTable table(ranks::Nodes(), 10, 2 * kBytes);
    table.begin_use(0, SharedTable::kNoRound);
    table.publish(0, {}, table.claim(0, kBytes).version, true);
    const pid_t self = ::getpid();
    if (::fork() > 0) ::kill(self, SIGKILL);
    const auto end = std::chrono::steady_clock::now() + 20s;
    bool is_gone = false;
    while (!is_gone && std::chrono::steady_clock::now() < end) {
      table.begin_use(1, SharedTable::kNoRound);
      for (const std::size_t i : {2U, 3U, 4U}) {
        const auto found = table.claim(i, kBytes);
        if (found.state == State::absent) table.publish(i, {}, found.version, true);
      }
      is_gone = table.version(0) != 0;
      std::this_thread::sleep_for(10ms);
    }
    (void)!::write(answer[1], is_gone ? "y" : "n", 1);
    ::_exit(0);
  }
  EXPECT_EQ(::waitpid(rank, nullptr, 0), rank);
  char said = 0;
  EXPECT_EQ(::read(answer[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  ::close(answer[0]);
  ::close(answer[1]);
}

TEST_F(SharedTableTest, WhatNobodyUsesGoesWhenThereIsTooMuch) {
  for (const std::size_t i : {0U, 1U, 2U}) make(i);
  table_.begin_use(1, SharedTable::kNoRound);
  table_.touch(0);
  make(3);
  expect_ready({0, 1, 2, 3});
  make(4);
  expect_ready({0, 1, 3, 4});
  EXPECT_EQ(table_.usage().bytes, 4 * kBytes);  // with what is used, which comes on top
  EXPECT_EQ(table_.usage().peak_bytes, 4 * kBytes);
  EXPECT_EQ(state(2), State::absent);
}

TEST_F(SharedTableTest, WhatAllHaveUsedStaysForTheNextEpochWhereThereIsRoom) {
  for (const std::size_t i : {0U, 1U, 2U}) use(i, true);
  expect_ready({0, 1, 2});
  EXPECT_EQ(table_.usage().bytes, 3 * kBytes);
  SharedTable none(ranks::Nodes(), 1, 0);
  none.publish(0, {}, none.claim(0, kBytes).version, true);
  none.begin_use(0, SharedTable::kNoRound);
  (void)none.end_use(0, true);
  EXPECT_EQ(none.usage().bytes, 0);
}

// In each epoch the same ones are found, whatever its order: not those of its end, which the next one drops
// before it comes to them.
TEST_F(SharedTableTest, WhatIsNeededLastGoesFirst) {
  use(0, false);  // the rest of it is still needed in this epoch
  for (std::size_t i = 1; i < 10; ++i) use(i, true);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(state(i), i < 3 ? State::ready : State::absent) << i;
  table_.begin_use(1, SharedTable::kNoRound);  // the next epoch begins to use it
  (void)table_.end_use(1, false);
  make(5);
  EXPECT_EQ(state(1), State::ready);
  EXPECT_EQ(state(2), State::absent);
}

TEST_F(SharedTableTest, WhatComesWhenAllHaveUsedItGoesFirst) {
  const std::uint32_t version = claim(0).version;
  table_.begin_use(0, SharedTable::kNoRound);
  (void)table_.end_use(0, true);
  table_.publish(0, {}, version, true);
  EXPECT_EQ(state(0), State::ready);
  for (const std::size_t i : {1U, 2U, 3U}) make(i);
  EXPECT_EQ(state(0), State::absent);
  SharedTable none(ranks::Nodes(), 1, 0);
  const std::uint32_t late = none.claim(0, kBytes).version;
  none.begin_use(0, SharedTable::kNoRound);
  (void)none.end_use(0, true);
  none.publish(0, {}, late, true);
  EXPECT_EQ(none.usage().bytes, 0);
  none.publish(0, {}, none.claim(0, kBytes).version, false);  // fetched for who has ended meanwhile
  EXPECT_EQ(none.usage().bytes, 0);
}

TEST_F(SharedTableTest, WhatComesWhenAllHaveUsedItStaysForWhoUsesItAgain) {
  const std::uint32_t version = claim(0).version;
  table_.begin_use(0, SharedTable::kNoRound);
  table_.begin_use(0, table_.end_use(0, true));
  table_.publish(0, {}, version, true);
  EXPECT_EQ(table_.version(0), version);
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

}  // namespace rota::test::shared_table_test
