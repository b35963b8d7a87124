// A job that is killed again and again, at any moment, and goes on in another world each time.

#include "launch.hpp"

namespace rota::test::kill_cycles_test {

class KillCycles : public Test {
 protected:
  void expect_nothing_lost(int cycles) {
    for (int number = 0; number < cycles; ++number) run_cycle(number);
    CheckpointDirectory directory({}, path_);
    const auto newest = directory.latest();
    ASSERT_TRUE(newest);
    EXPECT_GE(newest->info().step, acknowledged_);
    EXPECT_EQ(difference(*newest, kCycleBytes), "");
    EXPECT_GE(acknowledged_, cycles);
  }

 private:
  // One launch, which must end by the kill.
  void run_cycle(int number) {
    const int ranks = draw(1, 4);
    const int victim = number % 7 == 6 ? -1 : draw(0, ranks - 1);
    const int delay = draw(0, 400);
    const char* from = draw(0, 2) == 0 ? "start" : "first";
    const std::string arguments = fmt::format("{} {} {} {}", path_.string(), victim, delay, from);
    SCOPED_TRACE(fmt::format("cycle {}, {} ranks: {}", number, ranks, arguments));
    const Launched launched = launch("cycle", ranks, {arguments}, 60);
    EXPECT_FALSE(launched.hung);
    EXPECT_NE(launched.ended.code, 0);
    EXPECT_THAT(launched.ended.output, Not(HasSubstr("error:")));
    if (!launched.cases.empty()) read(launched.cases.front());
    expect_small_directory();
  }

  // What all ranks restored, and the last save that any rank had acknowledged.
  void read(const CaseReport& report) {
    const std::int64_t before = acknowledged_;
    for (const Said& by_rank : report) {
      if (by_rank.contains("saved")) acknowledged_ = std::max(acknowledged_, std::stol(by_rank.at("saved")));
      if (!by_rank.contains("restored")) continue;
      std::size_t end = 0;
      EXPECT_GE(std::stol(by_rank.at("restored"), &end), before);
      EXPECT_EQ(by_rank.at("restored").substr(end), "");  // of what differs
    }
  }

  // The last save may have been killed before it dropped an old one.
  void expect_small_directory() const {
    if (!fs::exists(path_)) return;
    std::array<std::int64_t, 2> counts{};
    for (const auto& entry : fs::directory_iterator(path_))
      ++counts.at(entry.path().extension() == ".h5" ? 0 : 1);
    EXPECT_LE(counts[0], kKeepLast + 2);
    EXPECT_LE(counts[1], 1);
  }

  int draw(int lowest, int highest) { return std::uniform_int_distribution<int>(lowest, highest)(random_); }

  TemporaryDirectory directory_ = make_fast_directory();
  fs::path path_ = directory_ / "checkpoints";
  std::mt19937 random_{20240607};
  std::int64_t acknowledged_ = -1;
};
using KillCyclesCampaign = KillCycles;

TEST_F(KillCycles, LoseNoSaveThatAnyRankHadAcknowledged) { expect_nothing_lost(5); }
TEST_F(KillCyclesCampaign, LoseNoSaveThatAnyRankHadAcknowledged) { expect_nothing_lost(150); }

}  // namespace rota::test::kill_cycles_test
