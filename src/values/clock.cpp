#include "values/clock.hpp"

#include <atomic>

namespace rota::internal {
namespace {

std::atomic<std::chrono::milliseconds> ahead{};

}  // namespace

Clock::time_point Clock::now() noexcept { return std::chrono::steady_clock::now() + ahead.load(); }

void Clock::advance(std::chrono::milliseconds by) noexcept { ahead = ahead.load() + by; }

}  // namespace rota::internal
