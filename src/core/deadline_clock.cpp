#include "core/deadline_clock.hpp"

#include <atomic>

namespace rota::internal {
namespace {

std::atomic<std::chrono::milliseconds::rep> ahead = 0;

}  // namespace

DeadlineClock::time_point DeadlineClock::now() noexcept {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(ahead.load());
}

void DeadlineClock::advance(std::chrono::milliseconds by) noexcept { ahead += by.count(); }

}  // namespace rota::internal
