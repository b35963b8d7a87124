#pragma once

// How a wait ends before its time: where the language that called us has signals of its own to attend to.

#include <chrono>

namespace rota::internal {

/// While it lives, what this thread waits for asks `check` some twenty times a second. What that throws ends
/// the wait. They nest; the inner one counts.
class InterruptScope {
 public:
  using Check = void (*)();
  explicit InterruptScope(Check check) noexcept;
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static constexpr std::chrono::milliseconds kInterval{50};
  /// Whether this thread is in a scope.
  [[nodiscard]] static bool is_open() noexcept;
  /// Whether it is time to ask again. Only then call `ask`, which throws what the check throws.
  [[nodiscard]] static bool is_due() noexcept;
  static void ask();

 private:
  Check check_;
  InterruptScope* outer_;
  std::chrono::steady_clock::time_point due_;
};

}  // namespace rota::internal
