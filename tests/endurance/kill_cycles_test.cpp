// A job that is killed again and again, at any moment, and goes on in another world each time.

#include "endurance.hpp"
#include "launch.hpp"
#include "saved_state.hpp"
#include "test.hpp"

namespace rota::test::kill_cycles_test {

using rota::test::Launched;

class KillCycles : public ::testing::Test {
 protected:
  // One launch, which must end by the kill.
  void run_cycle(int number) {
    const int ranks = draw(1, 4);
    const bool kills_all = number % 7 == 6;
    const std::string victim = kills_all ? "all" : std::to_string(draw(0, ranks - 1));
    std::ostringstream arguments;
    arguments << path_.string() << (number % 2 == 0 ? " direct " : " collective ") << victim << ' '
              << draw(0, 400) << (draw(0, 2) == 0 ? " start" : " first");
    SCOPED_TRACE("cycle " + std::to_string(number) + ", " + std::to_string(ranks) +
                 " ranks: " + arguments.str());
    const fs::path report = directory_ / ("report" + std::to_string(number));
    const Launched launched = rota::test::launch(ranks, "cycle", report, arguments.str(), 60);
    EXPECT_FALSE(launched.hung());
    EXPECT_NE(launched.ended.code, 0);
    EXPECT_EQ(launched.ended.output.find("error:"), std::string::npos) << launched.ended.output;
    read(launched);
    expect_small_directory();
    fs::remove_all(report);
  }

  // What all ranks restored, and the last save that any rank had acknowledged.
  void read(const Launched& launched) {
    const std::int64_t before = acknowledged_;
    for (const auto& report : launched.reports) {
      for (const std::string& line : report) {
        std::istringstream words(line);
        std::string what;
        std::int64_t step = 0;
        std::string difference;
        words >> what >> step >> std::ws;
        std::getline(words, difference);
        if (what == "saved") acknowledge(step);
        if (what != "restored") continue;
        ++restored_;
        EXPECT_EQ(difference, "");
        EXPECT_GE(step, before);
        lost_ += std::max<std::int64_t>(0, before - step);
      }
    }
  }

  void acknowledge(std::int64_t step) {
    if (step > acknowledged_) ++saves_;
    acknowledged_ = std::max(acknowledged_, step);
  }

  // The last save may have been killed before it dropped an old one.
  void expect_small_directory() const {
    if (!fs::exists(path_)) return;
    std::int64_t checkpoints = 0;
    std::int64_t others = 0;
    for (const auto& entry : fs::directory_iterator(path_)) {
      ++(entry.path().extension() == ".h5" ? checkpoints : others);
    }
    EXPECT_LE(checkpoints, rota::test::kKeepLast + 2);
    EXPECT_LE(others, 1);
  }

  void expect_newest_is_whole() {
    rota::CheckpointDirectory directory({}, path_);
    const auto newest = directory.latest();
    ASSERT_TRUE(newest);
    EXPECT_GE(newest->info().step, acknowledged_);
    EXPECT_EQ(rota::test::difference(*newest, rota::test::kCycleBytes), "");
  }

  int draw(int lowest, int highest) { return std::uniform_int_distribution<int>(lowest, highest)(random_); }

  rota::test::TemporaryDirectory directory_;
  fs::path path_ = directory_ / "checkpoints";
  std::mt19937 random_{20240607};
  std::int64_t acknowledged_ = -1;
  std::int64_t saves_ = 0;
  std::int64_t restored_ = 0;
  std::int64_t lost_ = 0;
};

TEST_F(KillCycles, LoseNoSaveThatAnyRankHadAcknowledged) {
  const int cycles = rota::test::wants_all() ? 300 : 12;
  for (int number = 0; number < cycles; ++number) run_cycle(number);
  expect_newest_is_whole();
  EXPECT_EQ(lost_, 0);
  EXPECT_GE(saves_, cycles);
  std::cout << cycles << " cycles: " << saves_ << " saves acknowledged, " << restored_
            << " ranks restored every value, " << lost_ << " saves lost\n";
}

}  // namespace rota::test::kill_cycles_test
