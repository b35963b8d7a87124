#include "core/message.hpp"
#include "test.hpp"

namespace rota::test::meter_test {

TEST(Meters, TellNowAndThenAndNotAtEachLook) {
  std::vector<Progress> told;
  const ProgressFunction tell = [&](const Progress& progress) { told.push_back(progress); };
  ProgressReporter reporter(tell, "count", 7);
  while (told.size() < 3) reporter.look();
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_GE(told[i].seconds, 0.1 * static_cast<double>(i + 1));  // ten in a second, or fewer
    EXPECT_FALSE(told[i].is_over);
  }
}

TEST(Meters, TellAllThatWasCountedAtTheEnd) {
  std::vector<Progress> told;
  const ProgressFunction tell = [&](const Progress& progress) { told.push_back(progress); };
  ProgressReporter reporter(tell, "count", 7);
  reporter.add(3, false);
  reporter.add(2, false);
  reporter.end();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].task, "count");
  EXPECT_EQ(told[0].done, 5);
  EXPECT_EQ(told[0].total, 7);
  EXPECT_TRUE(told[0].is_over);
}

TEST(Meters, PassOnWhatIsThrownAtThem) {
  const ProgressFunction tell = [](const Progress&) { throw std::runtime_error("enough"); };
  ProgressReporter reporter(tell, "count", 0);
  EXPECT_THROW(for (;;) reporter.look(), std::runtime_error);
  EXPECT_THROW(reporter.end(), std::runtime_error);
}

TEST(Meters, TellNobodyWhereThereIsNobody) {
  const ProgressFunction nobody;
  ProgressReporter reporter(nobody, "count", 0);
  reporter.add(1, false);
  reporter.look();
  EXPECT_NO_THROW(reporter.end());
}

}  // namespace rota::test::meter_test
