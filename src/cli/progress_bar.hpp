#pragma once

// What the tool shows of long work, on a terminal or in a log.

#include <cstddef>
#include <cstdio>
#include <string>

#include "rota/catalog.hpp"

namespace rota::cli {

/// Of a terminal; 80 for anything else.
std::size_t columns_of(std::FILE* out);

/// Task, done of total, a rate, time left; in the past tense where the task is over.
std::string progress_line(const Progress& progress);

/// The same in fewer than `width` columns, without the parts that do not fit, behind a bar where there is
/// room and the total is known.
std::string bar_line(const Progress& progress, std::size_t width);

/// Seconds as "0:07", "1:02:03".
std::string clock_text(double seconds);

/// Shows progress on `out`: on a terminal, one line that is drawn again and again, and erased in the end, for
/// tasks that take a while; elsewhere a line every two seconds, and one at the end of tasks that took over
/// one. *One thread.*
class ProgressBar {
 public:
  explicit ProgressBar(std::FILE* out = stderr);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { erase(); }

  void show(const Progress& progress);
  /// Calls `show`; the bar must outlive it.
  [[nodiscard]] ProgressFunction function() {
    return [this](const Progress& progress) { show(progress); };
  }

 private:
  void draw(const Progress& progress);
  void erase() noexcept;
  void log(const Progress& progress);

  std::FILE* out_;
  bool is_terminal_;
  bool is_drawn_ = false;
  double logged_ = 0;  // seconds of the task at its last line
};

}  // namespace rota::cli
