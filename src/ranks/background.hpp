#pragma once

// A thread in the background that works with other ranks, while only the caller's thread may use a
// communicator.

#include <condition_variable>
#include <exception>
#include <functional>
#include <string_view>
#include <thread>

#include "core/mutex.hpp"
#include "ranks/exchange.hpp"
#include "rota/communicator.hpp"

namespace rota::ranks {

/// Runs work while the caller's thread goes on. Its operations over one communicator are handed to the
/// caller's thread, one at a time, which starts and completes them when it comes by. All but the work is for
/// the caller's thread.
class Background {
 public:
  /// Starts `work`, which has `comm` for itself until this dies. Where there can be no thread, `finish` runs
  /// it.
  Background(const Communicator& comm, std::function<void()> work);
  /// Gives up what is not finished: the work fails at its next operation. What is started is completed first,
  /// if the others come to it soon.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Moves it on without waiting. Whether it has ended.
  bool poll();
  /// **Collective.** Waits for its end, once. Throws what the work threw. The deadline of each operation
  /// begins here at the earliest.
  void finish(std::string_view what);

 private:
  friend class Exchange;
  // The work's thread: has `operation` completed. Throws what that threw on the caller's thread, or
  // Error{timeout} once the caller has gone.
  void hand_over(Operation& operation);
  void run() noexcept;
  bool refuse_operations();
  // Runs `complete` on the operation handed over, if any, and gives it back where that says that it is
  // complete, or throws.
  template <typename Complete>
  void serve(Complete&& complete) ROTA_REQUIRES(mutex_);

  Exchange* exchange_;  // null in a world of one
  std::function<void()> work_;
  std::exception_ptr failure_;  // of the work
  internal::Mutex mutex_;
  std::condition_variable_any changed_;
  Operation* operation_ ROTA_GUARDED_BY(mutex_) = nullptr;
  std::exception_ptr error_ ROTA_GUARDED_BY(mutex_);  // of the operation
  bool has_ended_ ROTA_GUARDED_BY(mutex_) = false;
  bool is_refusing_ ROTA_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace rota::ranks
