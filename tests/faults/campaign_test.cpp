// Whatever call of whatever rank fails, is cut short, is lost, comes late or is the last of its process: all
// ranks hear the same, nothing hangs, and the state that was there before is there still, or the new one is.

#include "campaign.hpp"
#include "test.hpp"

namespace rota::test::campaign_test {

using rota::test::Case;
using rota::test::Kind;

class Faults : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
#ifdef ROTA_FAULTS_SKIPPED
    GTEST_SKIP() << ROTA_FAULTS_SKIPPED;
#endif
  }

  static void count(const std::vector<Case>& cases, double seconds) {
    const auto number = [&](auto&& is) { return std::ranges::count_if(cases, is); };
    std::cout << std::get<0>(GetParam()) << ", " << std::get<1>(GetParam()) << " rank(s): " << cases.size()
              << " cases, " << number([](const Case& one) { return one.kind == Kind::kill; })
              << " of them kills; " << number(rota::test::is_saved) << " saved, "
              << number(rota::test::is_timeout) << " timeouts; " << seconds << " s\n";
  }
};

TEST_P(Faults, LeaveTheOldStateOrTheNewOneOnAllRanks) {
  const auto start = std::chrono::steady_clock::now();
  const auto [writer, ranks] = GetParam();
  const rota::test::Campaign campaign(writer, ranks);
  std::vector<Case> cases = rota::test::wants_all() ? campaign.all_cases() : campaign.some_cases();
  ASSERT_GE(cases.size(), 20U);
  campaign.run(cases);
  for (const Case& one : cases) EXPECT_EQ(violation_of(one), "") << "  " << describe(one);
  count(cases, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

INSTANTIATE_TEST_SUITE_P(Each, Faults,
                         ::testing::Combine(::testing::Values("direct", "collective", "background"),
                                            ::testing::Values(1, 2, 4)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + std::to_string(std::get<1>(test.param));
                         });

}  // namespace rota::test::campaign_test
