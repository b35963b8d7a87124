#pragma once

// A mutex of which clang knows what it guards: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html.
// `./run lint` makes its warnings errors. Other compilers see plain members.

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "core/caught.hpp"
#include "core/wait.hpp"

#if defined(__clang__)
#define ROTA_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define ROTA_THREAD_SAFETY(attribute)
#endif

/// Of a member: it is read and written only while `mutex` is locked.
#define ROTA_GUARDED_BY(mutex) ROTA_THREAD_SAFETY(guarded_by(mutex))
/// Of a function: it is called while `mutex` is locked, which is locked, too, when it returns.
#define ROTA_REQUIRES(mutex) ROTA_THREAD_SAFETY(requires_capability(mutex))

namespace rota::internal {

/// A std::mutex. A std::condition_variable_any can wait with it, too.
class ROTA_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  void lock() ROTA_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() ROTA_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  /// Waits for a notice, or less, and not longer than `until`; unlocked meanwhile. Throws where `wait` ends.
  inline void wait(std::condition_variable& notice, Wait& wait,
                   Wait::Clock::time_point until = Wait::Clock::time_point::max()) ROTA_REQUIRES(this);

 private:
  std::mutex mutex_;
};

/// Has a mutex locked for a scope.
class ROTA_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ROTA_THREAD_SAFETY(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ROTA_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Has a mutex that is locked unlocked for a scope.
class ROTA_THREAD_SAFETY(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) ROTA_THREAD_SAFETY(release_capability(mutex)) : mutex_(mutex) {
    mutex_.unlock();
  }
  ~MutexUnlock() ROTA_THREAD_SAFETY(release_capability()) { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

inline void Mutex::wait(std::condition_variable& notice, Wait& wait, Wait::Clock::time_point until) {
  {
    std::unique_lock lock(mutex_, std::adopt_lock);
    until = std::min(until, wait.next_check());
    if (until == Wait::Clock::time_point::max()) {
      // NOLINTNEXTLINE(bugprone-spuriously-wake-up-functions): callers wait in loops
      notice.wait(lock);
    } else {
      // NOLINTNEXTLINE(bugprone-spuriously-wake-up-functions)
      notice.wait_until(lock, until);
    }
    (void)lock.release();
  }
  const MutexUnlock unlocked(*this);
  wait.check();
}

/// What `work` throws, which is done unlocked.
template <typename Work>
[[nodiscard]] std::exception_ptr thrown_unlocked(Mutex& mutex, Work&& work) ROTA_REQUIRES(mutex) {
  const MutexUnlock unlocked(mutex);
  return thrown_by(work);
}

}  // namespace rota::internal
