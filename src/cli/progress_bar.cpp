#include "cli/progress_bar.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cli/output.hpp"

namespace rota::cli {
namespace {

constexpr double kShownAfter = 0.3;    // seconds; what is faster needs no bar
constexpr double kLogEvery = 2;        // seconds
constexpr double kLoggedWhenOver = 1;  // seconds
constexpr std::size_t kLeastBar = 5;   // columns
constexpr std::size_t kMostBar = 40;
constexpr std::size_t kUsualWidth = 80;
constexpr const char* kEraseToEnd = "\x1b[K";

double rate_of(const Progress& progress) {
  return progress.seconds > 0 ? static_cast<double>(progress.done) / progress.seconds : 0;
}

std::string rate_text(const Progress& progress) {
  const double rate = rate_of(progress);
  return rate < 10 ? fmt::format("{:.1f} {}/s", rate, progress.unit)
                   : fmt::format("{} {}/s", grouped(static_cast<std::int64_t>(rate)), progress.unit);
}

std::string bar_of(const Progress& progress, std::size_t columns) {
  const double part = static_cast<double>(progress.done) / static_cast<double>(progress.total);
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(columns));
  return fmt::format("[{:<{}}] ", std::string(full, '='), columns);
}

}  // namespace

std::size_t columns_of(std::FILE* out) {
  winsize size{};
  const bool is_known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUsualWidth;
}

std::string clock_text(double seconds) {
  constexpr double kMost = 100 * 3600.0;
  if (!(seconds < kMost)) return "> 99 h";
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string progress_line(const Progress& progress) {
  std::string line = fmt::format("{}: {}", progress.task, grouped(progress.done));
  if (progress.is_over) {
    line += fmt::format(" in {:.1f} s, {}", progress.seconds, rate_text(progress));
  } else {
    if (progress.total > 0) line += " of " + grouped(progress.total);
    line += ", " + rate_text(progress);
    if (progress.total > 0 && progress.done > 0) {
      const std::int64_t left = std::max<std::int64_t>(progress.total - progress.done, 0);
      line += fmt::format(", {} left", clock_text(static_cast<double>(left) / rate_of(progress)));
    }
  }
  return line;
}

std::string bar_line(const Progress& progress, std::size_t width) {
  std::string line = progress_line(progress);
  const std::size_t rest = line.size() + 4;  // brackets, a space, and the last column
  if (progress.total > 0 && width >= rest + kLeastBar) {
    line.insert(0, bar_of(progress, std::min(width - rest, kMostBar)));
  }
  for (std::size_t at = 0; line.size() >= width && (at = line.find(", ")) != std::string::npos;) {
    line.erase(at, line.find(", ", at + 2) - at);  // one part: the rate first
  }
  return line.size() < width ? line
                             : line.substr(0, std::min(line.find(": "), std::max<std::size_t>(width, 1) - 1));
}

ProgressBar::ProgressBar(std::FILE* out) : out_(out), is_terminal_(::isatty(::fileno(out)) != 0) {}

void ProgressBar::show(const Progress& progress) {
  if (!is_terminal_) {
    log(progress);
  } else if (progress.is_over) {
    erase();
  } else if (progress.seconds >= kShownAfter) {
    draw(progress);
  }
}

void ProgressBar::draw(const Progress& progress) {
  std::fputs(fmt::format("\r{}{}", bar_line(progress, columns_of(out_)), kEraseToEnd).c_str(), out_);
  std::fflush(out_);
  is_drawn_ = true;
}

void ProgressBar::erase() noexcept {
  if (!is_drawn_) return;
  std::fprintf(out_, "\r%s", kEraseToEnd);
  std::fflush(out_);
  is_drawn_ = false;
}

void ProgressBar::log(const Progress& progress) {
  if (progress.seconds < logged_) logged_ = 0;  // another task
  const bool is_due =
      progress.is_over ? progress.seconds > kLoggedWhenOver : progress.seconds - logged_ >= kLogEvery;
  if (is_due) std::fputs((progress_line(progress) + "\n").c_str(), out_);
  if (is_due) std::fflush(out_);
  logged_ = progress.is_over ? 0 : is_due ? progress.seconds : logged_;
}

}  // namespace rota::cli
