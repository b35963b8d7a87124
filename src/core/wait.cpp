#include "core/wait.hpp"

#include <atomic>
#include <utility>

namespace rota::internal {

namespace {

std::atomic<std::chrono::milliseconds::rep> ahead = 0;

thread_local Wait* innermost = nullptr;

}  // namespace

DeadlineClock::time_point DeadlineClock::now() noexcept {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(ahead.load());
}

void DeadlineClock::advance(std::chrono::milliseconds by) noexcept { ahead += by.count(); }

bool is_stopped(const std::exception_ptr& error) noexcept {
  if (error == nullptr) return false;
  try {
    std::rethrow_exception(error);
  } catch (const Stopped&) {
    return true;
  } catch (...) {
    return false;
  }
}

Wait::Wait(std::stop_token stop)
    : Wait([stop = std::move(stop)] {
        if (stop.stop_requested()) throw Stopped();
      }) {}

Wait::Wait(std::function<void()> poll) : poll_(std::move(poll)), next_(Clock::now() + kInterval) {}

void Wait::check() {
  if (poll_ && Clock::now() >= next_) check_now();
}

void Wait::check_now() {
  if (!poll_) return;
  next_ = Clock::now() + kInterval;
  poll_();
}

Wait::Clock::time_point Wait::next_check() const noexcept {
  return poll_ ? Clock::now() + kInterval : Clock::time_point::max();
}

Wait& Wait::here() noexcept {
  static Wait never;
  return innermost != nullptr ? *innermost : never;
}

WaitScope::WaitScope(Wait wait) : wait_(std::move(wait)), outer_(std::exchange(innermost, &wait_)) {}

WaitScope::~WaitScope() { innermost = outer_; }

}  // namespace rota::internal
