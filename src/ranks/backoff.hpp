#pragma once

// Waiting for other ranks without keeping a core from them, nor from threads that read.

#include <sched.h>

#include <chrono>
#include <thread>

namespace rota::ranks {

/// What a loop does between two looks at something: gives its core away at first, for ranks may outnumber
/// cores; after a millisecond sleeps, for whatever is waited for takes longer than a switch of threads.
class Backoff {
 public:
  void wait() noexcept {
    if (std::chrono::steady_clock::now() < patience_) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }

 private:
  static constexpr std::chrono::microseconds kNap{50};
  std::chrono::steady_clock::time_point patience_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
};

}  // namespace rota::ranks
