#include "core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/interrupt.hpp"
#include "core/scarce.hpp"

namespace rota::internal {

void parallel_for(std::string_view task, std::int64_t count, std::int64_t part_size, int threads,
                  const std::function<void(const LoopPart&)>& work) {
  const std::int64_t parts = count / part_size + (count % part_size == 0 ? 0 : 1);
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;  // of the three that follow
  std::int64_t first_failed = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr error;
  std::int64_t running = 0;  // of the others
  std::condition_variable over;
  // Where the caller's wait may be ended, so may those of the others.
  const bool is_interruptible = InterruptScope::is_open();
  std::atomic<bool> is_interrupted = false;
  struct Interrupted {};
  const auto check = [&](bool is_callers) {
    if (!is_callers && is_interrupted) throw Interrupted();
    if (!is_callers) return;
    try {
      InterruptScope::ask_outer();
    } catch (...) {
      is_interrupted = true;
      throw;
    }
  };
  const auto take = [&](bool is_callers) noexcept {
    std::optional<InterruptScope> scope;
    if (is_interruptible) scope.emplace([&check, is_callers] { check(is_callers); });
    for (std::int64_t part = 0; (part = next++) < parts;) {
      const std::int64_t begin = part * part_size;
      try {
        work({.begin = begin, .end = std::min(begin + part_size, count), .is_callers = is_callers});
      } catch (const Interrupted&) {
        return;
      } catch (...) {
        next = parts;  // all parts before this one were begun
        const std::scoped_lock lock(mutex);
        if (is_callers && is_interrupted) part = -1;
        if (part < first_failed) {
          first_failed = part;
          error = std::current_exception();
        }
        if (part < 0) return;
      }
    }
  };
  const auto help = [&]() noexcept {
    take(false);
    const std::scoped_lock lock(mutex);
    --running;
    over.notify_one();
  };
  // The caller has nothing more to do, and may still be called away.
  const auto wait = [&]() noexcept {
    std::unique_lock lock(mutex);
    while (is_interruptible && !is_interrupted &&
           !over.wait_for(lock, InterruptScope::kInterval, [&] { return running == 0; })) {
      try {
        if (InterruptScope::is_due()) InterruptScope::ask();
      } catch (...) {
        is_interrupted = true;
        first_failed = -1;
        error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::int64_t t = 1; t < std::min<std::int64_t>(threads, parts); ++t) {
        const std::scoped_lock lock(mutex);
        others.push_back(start_thread(task, help));
        ++running;
      }
    } catch (...) {
      next = parts;
      throw;
    }
    take(true);
    wait();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace rota::internal
