// Wherever in a run the power goes, and whatever of what was not yet on disk is lost: a fresh process finds a
// step that was saved, and none that is older than the last of which a rank was told that it was.

#include "launch.hpp"
#include "power_loss.hpp"
#include "saved_state.hpp"
#include "steps.hpp"
#include "test.hpp"

namespace rota::test::power_loss_test {

using rota::test::PowerLoss;
using rota::test::Trace;

constexpr std::int64_t kSaves = 6;

// What is wrong with the directory that a power loss left; empty where all is well.
std::string violation_of(const fs::path& directory, std::int64_t acknowledged) {
  try {
    rota::CheckpointDirectory checkpoints({}, directory);
    const auto newest = checkpoints.latest();
    const std::int64_t step = newest ? newest->info().step : -1;
    if (step < acknowledged) {
      return "step " + std::to_string(step) + " after " + std::to_string(acknowledged) + " was acknowledged";
    }
    return newest ? rota::test::difference(*newest, rota::test::kStateBytes) : "";
  } catch (const rota::Error& error) {
    return error.what();
  }
}

// What is wrong once a job has gone on from there.
std::string violation_of_next_save(const fs::path& directory) {
  {
    rota::CheckpointDirectory checkpoints({}, directory);
    static_cast<void>(checkpoints.latest());
    checkpoints.save(kSaves, rota::test::make_state(kSaves, {}, rota::test::kStateBytes));
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("checkpoint-")) return "one more save left " + name;
  }
  return violation_of(directory, kSaves);
}

class PowerLosses : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
#ifdef ROTA_FAULTS_SKIPPED
    GTEST_SKIP() << ROTA_FAULTS_SKIPPED;
#endif
    const auto [writer, ranks] = GetParam();
    fs::create_directory(run_);
    fs::create_directory(directory_ / "trace");
    const auto ended = rota::test::Launcher(run_).run(
        ranks, "record " + writer + " " + (run_ / "saves").string() + " " + std::to_string(kSaves),
        "ROTA_FAULTS_TRACE=" + (directory_ / "trace").string());
    ASSERT_EQ(ended.code, 0) << ended.output;
    trace_ = rota::test::read_trace(directory_ / "trace");
    ASSERT_EQ(rota::test::highest_mark(trace_, rota::test::end_of(trace_)), kSaves - 1);
  }

  // What is wrong after the i-th of the power losses that are spread over the run; empty where all is well.
  std::string violation(const Trace& trace, std::int64_t i) const {
    const PowerLoss loss{.cut = i * 7919 % (rota::test::end_of(trace) + 1),
                         .seed = static_cast<std::uint64_t>(i)};
    const fs::path left = directory_ / "left";
    fs::create_directory(left);
    rota::test::leave(trace, loss, run_, left);
    std::string found = violation_of(left / "saves", rota::test::highest_mark(trace, loss.cut));
    if (found.empty() && i % 8 == 0) found = violation_of_next_save(left / "saves");
    fs::remove_all(left);
    if (found.empty()) return found;
    return "cut " + std::to_string(loss.cut) + ", seed " + std::to_string(loss.seed) + ": " + found;
  }

  // Whether any of the power losses finds that these calls are missing.
  bool are_missed(const std::vector<std::size_t>& calls) const {
    const Trace trace = rota::test::without(trace_, calls);
    for (std::int64_t i = 0; i < 5000; ++i) {
      if (!violation(trace, i).empty()) return true;
    }
    return false;
  }

  // ROTA_FAULTS=full: all parameters together 20,000 at the least.
  static std::int64_t states() { return rota::test::wants_all() ? 10000 : 375; }

  rota::test::TemporaryDirectory directory_ = rota::test::make_fast_directory();
  fs::path run_ = directory_ / "run";
  Trace trace_;
};

TEST_P(PowerLosses, LoseNothingThatWasAcknowledged) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> violations;
  for (std::int64_t i = 0; i < states() && violations.size() < 5; ++i) {
    if (const std::string found = violation(trace_, i); !found.empty()) violations.push_back(found);
  }
  EXPECT_THAT(violations, ::testing::IsEmpty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << trace_.size() << " calls, " << states() << " states; " << took.count() << " s\n";
}

// So the test above would see it.
TEST_P(PowerLosses, WouldLoseCheckpointsWithoutFsyncsOfFiles) {
  EXPECT_TRUE(are_missed(rota::test::syncs_in(trace_, false)));
}

TEST_P(PowerLosses, WouldLoseCheckpointsWithoutFsyncsOfDirectories) {
  EXPECT_TRUE(are_missed(rota::test::syncs_in(trace_, true)));
}

TEST_P(PowerLosses, WouldLoseACheckpointWithoutAnyOneOfTheFsyncs) {
  for (const bool of_directories : {false, true}) {
    for (const std::size_t call : rota::test::syncs_in(trace_, of_directories)) {
      EXPECT_TRUE(are_missed({call}))
          << "call " << call << (of_directories ? ", of a directory" : ", of a file");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, PowerLosses, ::testing::Combine(::testing::Values("direct", "collective"), ::testing::Values(1, 3)),
    [](const auto& test) { return std::get<0>(test.param) + std::to_string(std::get<1>(test.param)); });

}  // namespace rota::test::power_loss_test
