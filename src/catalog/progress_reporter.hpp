#pragma once

// Counts what is done, and tells whoever wants to know.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "rota/catalog.hpp"

namespace rota::internal {

/// One task's progress. Any thread counts, the caller's tells.
class ProgressReporter {
 public:
  /// `tell` must outlive it; it may be null. `total` 0: not known.
  ProgressReporter(const ProgressFunction& tell, std::string_view task, std::int64_t total,
                   std::string_view unit = "files") noexcept
      : tell_(tell), task_(task), total_(total), unit_(unit) {}

  void add(std::int64_t done, std::int64_t failed = 0) noexcept {
    done_.fetch_add(done, std::memory_order_relaxed);
    failed_.fetch_add(failed, std::memory_order_relaxed);
  }
  /// Tells, if it is time to. Throws what the function does.
  void look() {
    if (tell_ && Clock::now() >= next_) tell(false);
  }
  void end() {
    if (tell_) tell(true);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBetween{100};

  void tell(bool is_over) {
    const auto now = Clock::now();
    next_ = now + kBetween;
    tell_({.task = task_,
           .done = done_.load(std::memory_order_relaxed),
           .total = total_,
           .failed = failed_.load(std::memory_order_relaxed),
           .seconds = std::chrono::duration<double>(now - start_).count(),
           .is_over = is_over,
           .unit = unit_});
  }

  const ProgressFunction& tell_;
  std::string_view task_;
  std::int64_t total_;
  std::string_view unit_;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<std::int64_t> failed_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + kBetween;
};

}  // namespace rota::internal
