#include "core/parallel.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/mutex.hpp"
#include "core/scarce.hpp"
#include "core/wait.hpp"

namespace rota::internal {
namespace {

/// The parts of a loop, taken one after the other by several threads. Any thread.
class Loop {
 public:
  using Work = std::function<void(const LoopPart&)>;
  Loop(std::int64_t count, std::int64_t part_size, std::int64_t others, const Work& work)
      : count_(count), part_size_(part_size), work_(work), running_(others) {}

  /// Does parts until there is none. Once one throws, no further one is begun.
  void take(bool is_callers) noexcept {
    for (std::int64_t begin = 0; (begin = next_part()) != kNone;) {
      const std::int64_t end = begin + std::min(part_size_, count_ - begin);
      try {
        work_({.begin = begin, .end = end, .is_callers = is_callers});
      } catch (const Stopped&) {
        if (is_callers) fail_caller();
        if (is_callers || stop_.stop_requested()) return;
        fail(begin);  // what `work` itself was ended by
      } catch (...) {
        fail(begin);
      }
    }
  }
  /// Another thread ends.
  void end() noexcept {
    const MutexLock lock(mutex_);
    --running_;
    over_.notify_one();
  }
  /// The caller has nothing more to do.
  void await_others() noexcept {
    try {
      const MutexLock lock(mutex_);
      while (running_ > 0) mutex_.wait(over_, Wait::here());
    } catch (...) {
      fail_caller();
    }
  }
  /// What the caller throws comes before all other errors, and stops the other threads.
  void fail_caller() noexcept {
    fail(-1);
    stop_.request_stop();
  }
  /// Once all have ended: throws what the first part that failed threw.
  void rethrow() {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }
  [[nodiscard]] std::stop_token stop() const noexcept { return stop_.get_token(); }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  // Its first item.
  std::int64_t next_part() {
    const MutexLock lock(mutex_);
    if (first_failed_ != kNone || begun_ >= count_) return kNone;
    const std::int64_t begin = begun_;
    begun_ += std::min(part_size_, count_ - begin);
    return begin;
  }
  // All parts before this one were begun.
  void fail(std::int64_t part) noexcept {
    const MutexLock lock(mutex_);
    if (part >= first_failed_) return;
    first_failed_ = part;
    error_ = std::current_exception();
  }

  std::int64_t count_;
  std::int64_t part_size_;
  const Work& work_;
  std::stop_source stop_;
  Mutex mutex_;
  std::int64_t begun_ ROTA_GUARDED_BY(mutex_) = 0;  // items
  std::int64_t running_ ROTA_GUARDED_BY(mutex_);    // of the others
  std::int64_t first_failed_ ROTA_GUARDED_BY(mutex_) = kNone;
  std::exception_ptr error_ ROTA_GUARDED_BY(mutex_);
  std::condition_variable over_;
};

}  // namespace

void parallel_for(std::string_view task, std::int64_t count, std::int64_t part_size, int threads,
                  const std::function<void(const LoopPart&)>& work) {
  const std::int64_t parts = count / part_size + (count % part_size == 0 ? 0 : 1);
  const std::int64_t helpers = std::max<std::int64_t>(std::min<std::int64_t>(threads, parts) - 1, 0);
  Loop loop(count, part_size, helpers, work);
  const auto help = [&loop]() noexcept {
    {
      const WaitScope scope{Wait(loop.stop())};
      loop.take(false);
    }
    loop.end();
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::int64_t t = 0; t < helpers; ++t) others.push_back(start_thread(task, help));
    } catch (...) {
      loop.fail_caller();
      throw;
    }
    loop.take(true);
    loop.await_others();
  }
  loop.rethrow();
}

}  // namespace rota::internal
