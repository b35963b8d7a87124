#pragma once

// How a wait ends before what it waits for has come, and the clock of deadlines.

#include <chrono>
#include <exception>
#include <functional>
#include <stop_token>

namespace rota::internal {

/// *Any thread.*
struct DeadlineClock : std::chrono::steady_clock {
  [[nodiscard]] static time_point now() noexcept;
  /// Moves it ahead in this process: so a test passes a deadline without waiting for it.
  static void advance(std::chrono::milliseconds by) noexcept;
};

/// What ends a wait early is thrown as this, or as a type made from it. It is no error of what was waited
/// for: nobody makes an Error of it.
struct Stopped {};
[[nodiscard]] bool is_stopped(const std::exception_ptr& error) noexcept;

/// When waits are to end early. *One thread.*
class Wait {
 public:
  using Clock = std::chrono::steady_clock;
  /// How often a wait calls `check`.
  static constexpr std::chrono::milliseconds kInterval{50};

  /// Never.
  Wait() = default;
  /// Once `stop` is requested.
  explicit Wait(std::stop_token stop);
  /// When `poll` throws a Stopped. It is called some twenty times a second by the thread that waits: where
  /// the language that called us has signals of its own to attend to.
  explicit Wait(std::function<void()> poll);

  /// Throws a Stopped where the wait is to end. Cheap; the one place that polls.
  void check();
  /// The same, however long ago it was polled: for what is about to count, and is lost where the language
  /// that called us ends the call by itself.
  void check_now();
  /// When to do so next.
  [[nodiscard]] Clock::time_point next_check() const noexcept;

  /// That of this thread; see WaitScope.
  [[nodiscard]] static Wait& here() noexcept;

 private:
  std::function<void()> poll_;
  Clock::time_point next_ = Clock::time_point::min();
};

/// While it lives, `wait` is that of this thread: for what is called through functions that users write, and
/// that have no room for it. A worker of a loader calls Source::read, which calls Storage::read, which waits
/// for a server; and Python calls Loader::next. They nest; the inner one counts.
class WaitScope {
 public:
  explicit WaitScope(Wait wait);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  Wait wait_;
  Wait* outer_;
};

}  // namespace rota::internal
