// Very many saves by the collective writer, where nobody has chosen an MPI-IO for it.

#include "launch.hpp"
#include "test.hpp"

namespace rota::test::many_saves_test {

struct Count {
  std::int64_t saves = 0;
  std::int64_t bytes = 0;
};

class ManySaves : public ::testing::Test {
 protected:
  // Saves `count` states, from the `first` on, and counts what every rank has compared.
  void launch(int number, std::int64_t count) {
    constexpr std::array kCommunicators{"world", "line", "grid"};
    const int ranks = 2 + number % 3;
    std::ostringstream arguments;
    arguments << (directory_ / "checkpoints").string() << " collective "
              << kCommunicators.at(static_cast<std::size_t>(number / 3 % 3)) << ' ' << number * count << ' '
              << count;
    SCOPED_TRACE(std::to_string(ranks) + " ranks: " + arguments.str());
    const auto report = directory_ / ("report" + std::to_string(number));
    const auto launched = rota::test::launch(ranks, "many", report, arguments.str(),
                                             60 + static_cast<int>(count), "-u OMPI_MCA_io");
    EXPECT_EQ(launched.ended.code, 0) << launched.ended.output;
    for (const auto& said : launched.reports) {
      ASSERT_EQ(said.size(), 1U) << launched.ended.output;
      EXPECT_EQ(said, launched.reports.front());
    }
    add(launched.reports.front().front());
  }

  void add(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    Count count;
    words >> what >> count.saves >> count.bytes;
    total_.saves += count.saves;
    total_.bytes += count.bytes;
  }

  rota::test::TemporaryDirectory directory_;
  Count total_;
};

TEST_F(ManySaves, ByTheCollectiveWriterHoldEveryByteOnAnyCommunicator) {
  const auto start = std::chrono::steady_clock::now();
  const bool all = rota::test::wants_all();
  const int launches = all ? 102 : 4;
  const std::int64_t count = all ? 100 : 25;
  for (int i = 0; i < launches; ++i) launch(all ? i : 4 * i, count);
  EXPECT_EQ(total_.saves, launches * count);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << total_.saves << " saves in " << launches << " launches, " << total_.bytes
            << " bytes compared on every rank; " << took.count() << " s\n";
}

}  // namespace rota::test::many_saves_test
