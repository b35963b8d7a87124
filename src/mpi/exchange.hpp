#pragma once

// What is behind a communicator: non-blocking operations of all ranks, each by a deadline. A rank that does
// not come is named; one that comes late is told that it was given up.

#include <mpi.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "core/wait.hpp"
#include "mpi/backoff.hpp"
#include "mpi/messages.hpp"
#include "rota/world.hpp"

namespace rota::mpi {

class Background;
using internal::DeadlineClock;
using Requests = std::vector<MPI_Request>;

/// Non-blocking calls of one phase. Their memory lives as long as they may touch it: for ever, where they are
/// given up while under way. *One thread* at a time.
class Operation {
 public:
  /// Makes the calls and adds their requests.
  using Start = std::function<void(MPI_Comm, Requests&)>;

  /// `memory` is all that the calls read and write.
  Operation(std::string_view phase, std::shared_ptr<void> memory, Start start);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] const std::string& phase() const noexcept { return phase_; }
  [[nodiscard]] bool is_started() const noexcept { return is_started_; }

  /// Starts it if need be; whether it is complete. Throws Error{io}.
  bool advance(MPI_Comm comm);

 private:
  std::string phase_;
  std::shared_ptr<void> memory_;
  Start start_;
  Requests requests_;
  bool is_started_ = false;
  bool is_done_ = false;
};

/// Completes operations over a communicator of MPI, in the same order on every rank. Once a deadline was
/// missed the communicator is of no use any more: every call throws Error{timeout}. Where ranks are missed,
/// rank 0 asks who is there, and tells all who is not; where rank 0 is the one, the others find out by its
/// silence. *One thread*, but for `finish` through a Background.
class Exchange {
 public:
  enum class Ownership { owned, borrowed };
  /// Of several ranks. A `deadline` of zero is none. An `owned` communicator is freed, unless something may
  /// still be under way on it.
  Exchange(MPI_Comm comm, std::chrono::milliseconds deadline, Ownership ownership = Ownership::owned);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return deadline_; }
  /// Throws Error{unsupported} in a forked child.
  void require_maker() const;

  /// **Collective.** Waits for `operation`, through the Background if there is one. Throws Error{io},
  /// Error{timeout} naming the missing.
  void finish(Operation& operation);
  /// The same on the thread that may call MPI.
  void complete(Operation& operation);
  /// **Collective**, but does not wait: whether `operation` is complete. Throws Error{io}, Error{timeout}
  /// where other ranks have given up.
  bool advance(Operation& operation);
  /// **Collective.** Calls `is_done` until it says so. The one loop in which a rank waits for others.
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
  void abandon() noexcept { is_abandoned_ = true; }
  /// From now on `finish` goes through `background`, from its thread; nullptr: no more.
  void go_through(Background* background) noexcept { background_ = background; }
  /// What errors call the ranks; else by their numbers.
  void call_ranks(std::vector<int> names) { names_ = std::move(names); }

 private:
  // How often a rank that waits looks for messages; most waits are shorter.
  static constexpr std::chrono::milliseconds kLook{20};
  [[nodiscard]] bool is_late(DeadlineClock::time_point begun) const;
  void require_unbroken(std::string_view phase) const;
  void listen();
  void send(int rank, std::string_view message);
  void send_all(std::string_view message);
  bool answer();
  [[noreturn]] void give_up(std::string_view phase);
  [[noreturn]] void call_the_roll(std::string_view phase);
  [[noreturn]] void fail(std::string verdict);

  MPI_Comm comm_;
  std::chrono::milliseconds deadline_;
  Ownership ownership_;
  int maker_ = internal::this_process();
  int rank_ = 0;
  int size_ = 1;
  bool is_abandoned_ = false;
  Background* background_ = nullptr;
  std::vector<int> names_;

  // Messages beside the operations, between rank 0 and each other one.
  SendQueue sent_;
  std::deque<ReceiveQueue> received_;  // once this rank has waited for long: of rank 0, or of all others
  std::chrono::steady_clock::time_point next_look_ = std::chrono::steady_clock::now() + kLook;
  std::chrono::steady_clock::time_point next_sign_;
  DeadlineClock::time_point heard_;  // the last sign of progress

  mutable internal::Mutex mutex_;
  std::string verdict_ ROTA_GUARDED_BY(mutex_);  // why nothing is of use any more
};

template <typename IsDone>
void Exchange::wait(std::string_view phase, IsDone&& is_done) {
  attend(phase);  // this rank may have been given up meanwhile
  const auto begun = DeadlineClock::now();
  for (Backoff backoff; !is_done(); backoff.wait()) {
    attend(phase);
    if (is_late(begun)) give_up(phase);
  }
}

}  // namespace rota::mpi
