#include <poll.h>
#include <sys/ioctl.h>

#include "cli/progress_bar.hpp"
#include "test.hpp"

namespace rota::test::progress_bar_test {

using rota::Progress;
using rota::cli::bar_line;
using rota::cli::clock_text;
using rota::cli::progress_line;
using rota::cli::ProgressBar;

constexpr Progress kHalf{.task = "index files", .done = 500, .total = 1000, .seconds = 5};

TEST(ProgressText, TellsHowFarAndHowLongStill) {
  EXPECT_EQ(bar_line(kHalf, 80),
            "[=============              ] index files: 500 of 1,000, 100 files/s, 0:05 left");
  EXPECT_EQ(progress_line(kHalf), "index files: 500 of 1,000, 100 files/s, 0:05 left");
}

TEST(ProgressText, HasNoBarWhereTheTotalIsNotKnown) {
  const Progress listing{.task = "list files", .done = 12345, .seconds = 2};
  EXPECT_EQ(bar_line(listing, 80), "list files: 12,345, 6,172 files/s");
  EXPECT_EQ(progress_line(listing), "list files: 12,345, 6,172 files/s");
}

TEST(ProgressText, PromisesNothingBeforeTheFirstFile) {
  const Progress begun{.task = "index files", .done = 0, .total = 10, .seconds = 4};
  EXPECT_THAT(bar_line(begun, 80), AllOf(HasSubstr("0 of 10, 0.0 files/s"), Not(HasSubstr("="))));
  EXPECT_EQ(progress_line(begun), "index files: 0 of 10, 0.0 files/s");
  EXPECT_THAT(bar_line({.task = "index files", .total = 10}, 80), HasSubstr("0.0 files/s"));
}

TEST(ProgressText, StaysShorterThanTheTerminalIsWide) {
  for (std::size_t width = 0; width < 200; ++width) {
    EXPECT_LT(bar_line(kHalf, width).size(), std::max<std::size_t>(width, 1)) << width;
  }
  EXPECT_EQ(bar_line(kHalf, 12), "index files");
  EXPECT_THAT(bar_line(kHalf, 55), AllOf(HasSubstr("500 of 1,000"), Not(HasSubstr("["))));
}

TEST(ProgressText, LeavesOutWholePartsWhereTheTerminalIsNarrow) {
  EXPECT_EQ(bar_line(kHalf, 50), "index files: 500 of 1,000, 100 files/s, 0:05 left");
  EXPECT_EQ(bar_line(kHalf, 49), "index files: 500 of 1,000, 0:05 left");
  EXPECT_EQ(bar_line(kHalf, 37), "index files: 500 of 1,000, 0:05 left");
  EXPECT_EQ(bar_line(kHalf, 36), "index files: 500 of 1,000");
  EXPECT_EQ(bar_line(kHalf, 25), "index files");
}

TEST(ProgressText, CountsWhatTheTaskCounts) {
  const Progress shards{.task = "write shards", .done = 23, .total = 46, .seconds = 1, .unit = "shards"};
  EXPECT_EQ(progress_line(shards), "write shards: 23 of 46, 23 shards/s, 0:01 left");
}

TEST(ProgressText, FillsTheBarAndNoMore) {
  const Progress more{.task = "index files", .done = 30, .total = 20, .seconds = 1};
  EXPECT_THAT(bar_line(more, 60), AllOf(HasSubstr("=] index files: 30 of 20"), HasSubstr("0:00 left")));
}

TEST(ProgressText, SaysWhatATaskTookWhenItIsOver) {
  const Progress over{.task = "index files", .done = 30, .total = 30, .seconds = 12, .is_over = true};
  EXPECT_EQ(progress_line(over), "index files: 30 in 12.0 s, 2.5 files/s");
}

TEST(ProgressText, ShowsTimeAsClocksDo) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(3599), "59:59");
  EXPECT_EQ(clock_text(36000 + 62), "10:01:02");
  EXPECT_EQ(clock_text(1e18), "> 99 h");
}

Progress at(double seconds, bool is_over = false) {
  Progress progress = kHalf;
  progress.seconds = seconds;
  progress.is_over = is_over;
  return progress;
}

// ---- a log ----

template <typename Work>
std::string logged(Work&& work) {
  std::array<char, 4096> text{};
  std::FILE* file = std::tmpfile();
  {
    ProgressBar bar(file);
    work(bar);
  }
  std::rewind(file);
  const std::size_t bytes = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  return {text.data(), bytes};
}

TEST(ProgressLog, HasALineEveryTwoSecondsAndOneAtTheEnd) {
  const std::string log = logged([](ProgressBar& bar) {
    for (int tenths = 1; tenths <= 50; ++tenths) bar.show(at(tenths / 10.0));
    bar.show(at(5.1, true));
  });
  EXPECT_EQ(log,
            "index files: 500 of 1,000, 250 files/s, 0:02 left\n"
            "index files: 500 of 1,000, 125 files/s, 0:04 left\n"
            "index files: 500 in 5.1 s, 98 files/s\n");
}

TEST(ProgressLog, IsEmptyForShortTasks) {
  const std::string log = logged([](ProgressBar& bar) {
    for (int task = 0; task < 9; ++task) {
      bar.show(at(0.9));
      bar.show(at(0.95, true));
    }
  });
  EXPECT_THAT(log, IsEmpty());
}

// ---- a terminal ----

// What has been written to the other end of `master`, which is closed: what a kernel has yet to pass on, too.
std::string read_to_end(int master) {
  std::string text;
  std::array<char, 4096> part{};
  for (pollfd ready{.fd = master, .events = POLLIN, .revents = 0}; ::poll(&ready, 1, 10'000) > 0;) {
    const ssize_t bytes = ::read(master, part.data(), part.size());
    if (bytes <= 0) return text;  // EIO: closed, and nothing is left
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  throw std::runtime_error("the pty does not end");
}

int open_master() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master >= 0 && ::grantpt(master) == 0 && ::unlockpt(master) == 0) return master;
  if (master >= 0) ::close(master);
  return -1;
}

class ProgressBarOnATerminal : public Test {
 protected:
  void SetUp() override {
    const int master = open_master();
    if (master < 0) GTEST_SKIP() << "there are no pseudo-terminals here (no /dev/pts)";
    ::close(master);
  }
};

// What a bar draws on a terminal of 60 columns.
template <typename Work>
std::string drawn(Work&& work) {
  const int master = open_master();
  std::FILE* terminal = ::fdopen(::open(::ptsname(master), O_RDWR | O_NOCTTY), "w");
  const winsize size{.ws_row = 24, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(master, TIOCSWINSZ, &size);
  {
    ProgressBar bar(terminal);
    work(bar);
  }
  std::fclose(terminal);
  std::string text = read_to_end(master);
  ::close(master);
  return text;
}

TEST_F(ProgressBarOnATerminal, IsDrawnInPlaceAndErasedWhenTheTaskIsOver) {
  const std::string text = drawn([](ProgressBar& bar) {
    bar.show(at(0.4));
    bar.show(at(5));
    bar.show(at(6, true));
  });
  EXPECT_EQ(text, "\r" + bar_line(at(0.4), 60) + "\x1b[K\r" + bar_line(at(5), 60) + "\x1b[K\r\x1b[K");
  EXPECT_THAT(bar_line(at(5), 60), AllOf(SizeIs(59), HasSubstr("[==")));
}

TEST_F(ProgressBarOnATerminal, IsErasedWhereTheTaskFails) {
  EXPECT_THAT(drawn([](ProgressBar& bar) { bar.show(at(5)); }), EndsWith("\x1b[K\r\x1b[K"));
}

TEST_F(ProgressBarOnATerminal, IsNotDrawnForWhatIsSoonOver) {
  EXPECT_THAT(drawn([](ProgressBar& bar) {
                bar.show(at(0.1));
                bar.show(at(0.2));
                bar.show(at(9, true));
              }),
              IsEmpty());
}

}  // namespace rota::test::progress_bar_test
