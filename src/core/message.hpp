#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "rota/message.hpp"

namespace rota::internal {

/// Tells the process's MessageSink. *Any thread.*
void tell(std::string_view message) noexcept;

/// One task's progress. Any thread counts; the caller's thread reports.
class ProgressReporter {
 public:
  /// `report` must outlive it; it may be null. `total` 0: not known.
  ProgressReporter(const ProgressFunction& report, std::string_view task, std::int64_t total,
                   std::string_view unit = "files") noexcept
      : report_(report), task_(task), total_(total), unit_(unit) {}

  /// `looks`: as `look`, which other threads must not.
  void add(std::int64_t done, bool looks) {
    done_.fetch_add(done, std::memory_order_relaxed);
    if (looks) look();
  }
  /// Reports, if it is time to. Throws what the function does.
  void look() {
    if (report_ && Clock::now() >= next_) send(false);
  }
  void end() {
    if (report_) send(true);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBetween{100};

  void send(bool is_over) {
    const auto now = Clock::now();
    next_ = now + kBetween;
    report_({.task = task_,
             .done = done_.load(std::memory_order_relaxed),
             .total = total_,
             .seconds = std::chrono::duration<double>(now - start_).count(),
             .is_over = is_over,
             .unit = unit_});
  }

  const ProgressFunction& report_;
  std::string_view task_;
  std::int64_t total_;
  std::string_view unit_;
  std::atomic<std::int64_t> done_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + kBetween;
};

}  // namespace rota::internal
