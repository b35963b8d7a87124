#pragma once

// The clock of deadlines among ranks, and of the processes of a node: the system's steady one.

#include <chrono>

namespace rota::internal {

/// *Any thread.*
struct DeadlineClock : std::chrono::steady_clock {
  [[nodiscard]] static time_point now() noexcept;
  /// Moves it ahead in this process: so a test passes a deadline without waiting for it.
  static void advance(std::chrono::milliseconds by) noexcept;
};

}  // namespace rota::internal
