#pragma once

// What is behind a communicator: non-blocking operations of all ranks, each by a deadline. A rank that does
// not come is named; one that comes late is told that it was given up.

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "core/wait.hpp"
#include "ranks/backoff.hpp"
#include "ranks/transport.hpp"
#include "rota/world.hpp"

namespace rota::ranks {

class Background;
using internal::DeadlineClock;

/// A call of one phase. Its memory lives as long as it may touch that: for ever, where it is given up while
/// under way. *One thread* at a time.
class Operation {
 public:
  using Start = std::function<Transport::Begun(Transport&)>;

  /// `memory` is all that the call reads and writes.
  Operation(std::string_view phase, std::shared_ptr<void> memory, Start start);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] const std::string& phase() const noexcept { return phase_; }
  [[nodiscard]] bool is_started() const noexcept { return is_started_; }

  void start(Transport& transport);
  /// Starts it if need be; whether it is complete. `may_rest` is as of Call::advance. Throws Error{io},
  /// RankLost.
  bool advance(Transport& transport, bool may_rest = false);

 private:
  std::string phase_;
  std::shared_ptr<void> memory_;
  Start start_;
  Transport::Begun call_;
  bool is_started_ = false;
  bool is_done_ = false;
};

/// Completes operations over a transport, in the same order on every rank; README.md says how missing ranks
/// are named. Once a deadline was missed the communicator is of no use any more: every call throws
/// Error{timeout}. A wait that takes long is told to the MessageSink, once. *One thread*, but for `finish`
/// through a Background.
class Exchange {
 public:
  /// A `deadline` of zero is none.
  Exchange(std::unique_ptr<Transport> transport, std::chrono::milliseconds deadline);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] Transport& transport() const noexcept { return *transport_; }
  [[nodiscard]] int rank() const noexcept { return transport_->rank(); }
  [[nodiscard]] int size() const noexcept { return transport_->size(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return deadline_; }
  /// Throws Error{unsupported} in a forked child.
  void require_maker() const;

  /// **Collective.** Waits for `operation`, through the Background if there is one. Throws Error{io},
  /// Error{timeout} naming the missing.
  void finish(Operation& operation);
  /// The same on the thread that may use the transport.
  void complete(Operation& operation);
  /// **Collective**, but does not wait: whether `operation` is complete. Throws Error{io}, Error{timeout}
  /// where other ranks have given up.
  bool advance(Operation& operation);
  /// The same without a look at what others say. Throws Error{io}, RankLost: the one that waits may tell.
  bool move(Operation& operation, bool may_rest = false);
  /// Begins `operation`, and does not say whether ranks are missed.
  void start(Operation& operation);
  /// Runs `work`, which exchanges something. Where it throws on this rank alone, but for RankLost, that
  /// leaves the others alone: they miss it at their deadline.
  template <typename Work>
  auto in_step(std::string_view phase, Work&& work);
  /// **Collective.** Calls `is_done` until it says so, of `operation`, if there is one. The one loop in which
  /// a rank waits for others: where it throws RankLost, of any exchange of these ranks, all are told.
  template <typename IsDone>
  void wait(std::string_view phase, IsDone&& is_done);
  /// Looks whether others have given up, and answers them: to be called now and then while this rank is
  /// otherwise busy waiting. Throws Error{timeout}, and what ends a wait early.
  void attend(std::string_view phase);
  /// A sign of progress for those who wait, unless there was one a moment ago. Cheap.
  void show_progress();

  /// On this rank alone: what was begun will not be completed.
  void break_off(std::string why) noexcept;
  [[nodiscard]] bool is_broken() const noexcept;
  /// Something may be under way on it for ever.
  void abandon() noexcept { transport_->leak(); }
  /// From now on `finish` goes through `background`, from its thread; nullptr: no more.
  void go_through(Background* background) noexcept { background_ = background; }
  /// What errors call the ranks; else by their numbers.
  void call_ranks(std::vector<int> names) { names_ = std::move(names); }
  /// As "ranks 1, 3": by their names.
  [[nodiscard]] std::string shown(std::vector<int> ranks) const;

 private:
  // How often a rank that waits looks for messages; most waits are shorter.
  static constexpr std::chrono::milliseconds kLook{20};
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kProbe{1};
  struct LongWait {
    DeadlineClock::time_point next = DeadlineClock::now() + kPatience;  // when there is more to do about it
    bool has_begun = false;
    DeadlineClock::time_point next_probe = DeadlineClock::now() + kProbe;
  };
  [[nodiscard]] bool is_late(DeadlineClock::time_point begun) const;
  void require_unbroken(std::string_view phase) const;
  void tell_others(std::string_view message);
  bool answer();
  [[noreturn]] void give_up(std::string_view phase);
  void await_verdict();
  void ask_who_is_there();
  void explain(std::string_view phase, LongWait& wait);
  bool probe(LongWait& wait);
  [[noreturn]] void call_the_roll(std::string_view phase);
  void lose(std::string_view phase, const std::vector<int>& lost);
  template <typename IsDone>
  bool unless_lost(std::string_view phase, IsDone&& is_done);
  [[noreturn]] void fail(std::string verdict);
  [[nodiscard]] std::string text_of(std::string_view phase, const std::vector<int>& missing,
                                    std::string_view what) const;

  std::unique_ptr<Transport> transport_;
  std::chrono::milliseconds deadline_;
  int maker_ = internal::this_process();
  Background* background_ = nullptr;
  std::vector<int> names_;

  std::chrono::steady_clock::time_point next_look_ = std::chrono::steady_clock::now() + kLook;
  std::chrono::steady_clock::time_point next_sign_;
  DeadlineClock::time_point heard_;                    // the last sign of progress
  std::chrono::steady_clock::time_point heard_first_;  // the last of rank 0
  std::int64_t asked_ = 0;                             // questions who is there
  std::set<int> silent_;                               // to the last of them

  mutable internal::Mutex mutex_;
  std::string verdict_ ROTA_GUARDED_BY(mutex_);  // why nothing is of use any more
};

template <typename Work>
auto Exchange::in_step(std::string_view phase, Work&& work) {
  try {
    return work();
  } catch (const RankLost&) {
    throw;
  } catch (...) {
    break_off(std::string(phase) + ": it ended early on this rank");
    throw;
  }
}

template <typename IsDone>
bool Exchange::unless_lost(std::string_view phase, IsDone&& is_done) {
  try {
    return is_done();
  } catch (const RankLost& lost) {
    in_step(phase, [&] { lose(phase, lost.ranks); });
    return false;
  }
}

template <typename IsDone>
void Exchange::wait(std::string_view phase, IsDone&& is_done) {
  attend(phase);  // this rank may have been given up meanwhile
  const auto begun = DeadlineClock::now();
  LongWait slow;
  for (Backoff backoff; !unless_lost(phase, is_done); backoff.wait()) {
    attend(phase);
    if (is_late(begun)) give_up(phase);
    if (DeadlineClock::now() > slow.next) in_step(phase, [&] { explain(phase, slow); });
    if (DeadlineClock::now() > slow.next_probe) unless_lost(phase, [&] { return probe(slow); });
  }
}

}  // namespace rota::ranks
