#pragma once

// How a wait ends before its time: where the language that called us has signals of its own to attend to.

#include <chrono>
#include <exception>
#include <functional>
#include <stop_token>

namespace rota::internal {

/// While it lives, what this thread waits for asks `check` some twenty times a second. What that throws ends
/// the wait, and is no error of what was waited for. They nest; the inner one counts.
class InterruptScope {
 public:
  using Check = std::function<void()>;
  explicit InterruptScope(Check check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static constexpr std::chrono::milliseconds kInterval{50};
  /// Whether this thread is in a scope.
  [[nodiscard]] static bool is_open() noexcept;
  /// Whether it is time to ask again. Only then call `ask`, which throws what the check throws.
  [[nodiscard]] static bool is_due() noexcept;
  static void ask();
  /// Asks what is around the innermost one, for a check that passes it on.
  static void ask_outer();
  /// Whether `error` is what a check of this thread has thrown.
  [[nodiscard]] static bool has_thrown(const std::exception_ptr& error) noexcept;

 private:
  void ask_own();

  Check check_;
  InterruptScope* outer_;
  std::chrono::steady_clock::time_point due_;
  std::exception_ptr thrown_ = {};
};

/// While it lives, what this thread waits for ends once it is to stop.
class StopScope {
 public:
  explicit StopScope(std::stop_token stop);

 private:
  InterruptScope scope_;
};

}  // namespace rota::internal
