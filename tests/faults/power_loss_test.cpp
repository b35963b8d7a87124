// Wherever in a run the power goes, and whatever of what was not yet on disk is lost: a fresh process finds a
// step that was saved, and none that is older than the last of which a rank was told that it was.

#include "power_loss.hpp"
#include "launch.hpp"

namespace rota::test::power_loss_test {

constexpr std::int64_t kSaves = 6;

// What is wrong with the directory that a power loss left; empty where all is well.
std::string violation_of(const fs::path& directory, std::int64_t acknowledged) {
  try {
    CheckpointDirectory checkpoints({}, directory);
    const auto newest = checkpoints.latest();
    const std::int64_t step = newest ? newest->info().step : -1;
    if (step < acknowledged) {
      return "step " + std::to_string(step) + " after " + std::to_string(acknowledged) + " was acknowledged";
    }
    return newest ? difference(*newest, kStateBytes) : "";
  } catch (const Error& error) {
    return error.what();
  }
}

// What is wrong once a job has gone on from there.
std::string violation_of_next_save(const fs::path& directory) {
  {
    CheckpointDirectory checkpoints({}, directory);
    static_cast<void>(checkpoints.latest());
    checkpoints.save(kSaves, make_state(kSaves, {}, kStateBytes));
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("checkpoint-")) return "one more save left " + name;
  }
  return violation_of(directory, kSaves);
}

class PowerLosses : public TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
#ifdef ROTA_FAULTS_SKIPPED
    GTEST_SKIP() << ROTA_FAULTS_SKIPPED;
#endif
    const auto [how, ranks] = GetParam();
    fs::create_directory(run_);
    fs::create_directory(directory_ / "trace");
    const Launched recorded =
        launch("record", ranks, {fmt::format("{} {} {}", how, (run_ / "saves").string(), kSaves)}, 90,
               interposed_below(run_) + " ROTA_FAULTS_TRACE=" + (directory_ / "trace").string());
    ASSERT_EQ(recorded.ended.code, 0) << recorded.ended.output;
    trace_ = read_trace(directory_ / "trace");
    ASSERT_EQ(highest_mark(trace_, end_of(trace_)), kSaves - 1);
  }

  // What is wrong after the i-th of the power losses that are spread over the run; empty where all is well.
  std::string violation(const Trace& trace, std::int64_t i) const {
    const PowerLoss loss{.cut = i * 7919 % (end_of(trace) + 1), .seed = static_cast<std::uint64_t>(i)};
    const fs::path left = directory_ / "left";
    fs::create_directory(left);
    leave(trace, loss, run_, left);
    std::string found = violation_of(left / "saves", highest_mark(trace, loss.cut));
    if (found.empty() && i % 8 == 0) found = violation_of_next_save(left / "saves");
    fs::remove_all(left);
    return found.empty() ? "" : fmt::format("cut {}, seed {}: {}", loss.cut, loss.seed, found);
  }

  void expect_nothing_lost(std::int64_t states) const {
    std::vector<std::string> violations;
    for (std::int64_t i = 0; i < states && violations.size() < 5; ++i) {
      if (const std::string found = violation(trace_, i); !found.empty()) violations.push_back(found);
    }
    EXPECT_THAT(violations, IsEmpty());
  }

  // Whether any of the power losses finds that these calls are missing.
  bool are_missed(const std::vector<std::size_t>& calls) const {
    const Trace trace = without(trace_, calls);
    for (std::int64_t i = 0; i < 5000; ++i) {
      if (!violation(trace, i).empty()) return true;
    }
    return false;
  }

  TemporaryDirectory directory_ = make_fast_directory();
  fs::path run_ = directory_ / "run";
  Trace trace_;
};
using PowerLossesCampaign = PowerLosses;

TEST_P(PowerLosses, LoseNothingThatWasAcknowledged) { expect_nothing_lost(375); }
TEST_P(PowerLossesCampaign, LoseNothingThatWasAcknowledged) { expect_nothing_lost(10'000); }

// So the tests above would see it.
TEST_P(PowerLosses, WouldLoseACheckpointWithoutAnyOneOfTheFsyncs) {
  for (const bool of_directories : {false, true}) {
    const std::vector<std::size_t> calls = syncs_in(trace_, of_directories);
    EXPECT_THAT(calls, Not(IsEmpty()));
    for (const std::size_t call : calls) {
      EXPECT_TRUE(are_missed({call}))
          << "call " << call << (of_directories ? ", of a directory" : ", of a file");
    }
  }
}

const auto name = [](const auto& test) {
  return fmt::format("{}{}", std::get<0>(test.param), std::get<1>(test.param));
};
INSTANTIATE_TEST_SUITE_P(Each, PowerLosses, Values(std::tuple("direct", 1), std::tuple("background", 3)),
                         name);
INSTANTIATE_TEST_SUITE_P(Each, PowerLossesCampaign, Combine(Values("direct", "background"), Values(1, 3)),
                         name);

}  // namespace rota::test::power_loss_test
