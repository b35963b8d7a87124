#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace rota::internal {

/// Where threads wait before they try a read again. *Any thread.*
class RetryPause {
 public:
  /// Waits; false at once where nobody wants what would be read.
  bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return !wakes_.wait_for(lock, time, [&] { return is_cut_short_; });
  }
  /// Ends all waits, and has none begin until `resume`.
  void cut_short() noexcept {
    {
      const std::lock_guard lock(mutex_);
      is_cut_short_ = true;
    }
    wakes_.notify_all();
  }
  void resume() noexcept {
    const std::lock_guard lock(mutex_);
    is_cut_short_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool is_cut_short_ = false;
};

}  // namespace rota::internal
