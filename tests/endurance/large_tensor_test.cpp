// More elements, and more bytes, than a signed integer of 32 bits can count.

#include "launch.hpp"
#include "test.hpp"

namespace rota::test::large_tensor_test {

class LargeTensor : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    constexpr std::uintmax_t kNeeded = std::uintmax_t{6} << 30;
    if (!rota::test::wants_all())
      GTEST_SKIP() << "only with ROTA_FAULTS=full: it needs 5 GB of disk and memory";
    if (std::filesystem::space(directory_.path()).available < kNeeded)
      GTEST_SKIP() << "there is not enough disk";
  }

  void run(int ranks, const std::string& what) {
    const auto& [writer, rows] = GetParam();
    const auto launched = rota::test::launch(
        ranks, "large", directory_ / what,
        (directory_ / "checkpoints").string() + " " + writer + " " + what + " " + rows, 900);
    EXPECT_EQ(launched.ended.code, 0) << launched.ended.output;
    EXPECT_THAT(launched.reports, Each(ElementsAre("ok")));
    std::cout << what << " by " << ranks << " ranks: " << launched.ended.seconds << " s\n";
  }

  rota::test::TemporaryDirectory directory_;
};

TEST_P(LargeTensor, IsSavedByTwoRanksAndRestoredByThree) {
  run(2, "save");
  run(3, "restore");
}

INSTANTIATE_TEST_SUITE_P(Each, LargeTensor,
                         ::testing::Combine(::testing::Values("direct", "collective"),
                                            ::testing::Values("one", "many", "moved")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param) + "_rows";
                         });

}  // namespace rota::test::large_tensor_test
