#pragma once

// Non-blocking operations of all ranks, each by a deadline, and agreement by them. A rank that does not come
// is named; one that comes late is told that it was given up.

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/deadline_clock.hpp"
#include "mpi/collectives.hpp"

namespace rota::mpi {

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

/// Completes operations over a communicator, in the same order on every rank. Once a deadline was missed the
/// communicator is of no use any more: every call throws Error{timeout}. Where ranks are missed, rank 0 asks
/// who is there, and tells all who is not; where rank 0 is the one, the others find out by its silence. *One
/// thread.*
class Exchange {
 public:
  /// `comm`, which must outlive it and be used by nothing else, may be a world of one without MPI. A
  /// `deadline` of zero is none.
  Exchange(const Communicator& comm, std::chrono::milliseconds deadline) noexcept
      : comm_(&comm), deadline_(deadline) {}

  /// **Collective**, but does not wait: whether `operation` is complete. Throws Error{io}, Error{timeout}
  /// where other ranks have given up.
  bool advance(Operation& operation);
  /// **Collective.** Waits for `operation` until the deadline. Throws Error{io}, Error{timeout} naming the
  /// missing.
  void finish(Operation& operation);
  /// Looks whether others have given up, and answers them: to be called now and then while this rank is
  /// otherwise busy waiting. Throws Error{timeout}, and what interrupts this rank (InterruptScope).
  void attend(std::string_view phase);
  /// Not all ranks have come to `phase`: finds out which, tells all, and throws Error{timeout}.
  [[noreturn]] void give_up(std::string_view phase);

  /// On this rank alone: what was begun will not be completed.
  void break_off(std::string why) noexcept {
    if (!is_broken()) verdict_ = std::move(why);
  }
  [[nodiscard]] bool is_broken() const noexcept { return !verdict_.empty(); }
  /// When what begins now is late.
  [[nodiscard]] DeadlineClock::time_point latest() const;

 private:
  void require_unbroken(std::string_view phase) const;
  void send(int rank, std::string message);
  [[nodiscard]] std::optional<std::string> receive(int& from);
  void ask_interrupt(std::string_view phase);
  bool answer();
  void call_the_roll(std::string_view phase);
  [[noreturn]] void pass_on(std::string verdict);
  [[noreturn]] void fail(std::string verdict);

  const Communicator* comm_;
  std::chrono::milliseconds deadline_;
  std::string verdict_;
};

/// `n` elements as MPI takes them. Throws Error{out_of_range} where they are too many for one call.
[[nodiscard]] int to_count(std::size_t n);

/// Keeps what calls that are given up may still touch, for as long as the process lives.
void keep_for_ever(std::shared_ptr<void> memory);

/// Runs an operation to its end.
using Run = std::function<void(Operation&)>;

/// **Collective.** Returns if no rank has an `error`, else throws on every rank the same Error, the one of
/// the lowest failing rank, its message headed by "rank r: ".
void agree(const Communicator& comm, const Run& run, std::string_view phase, const std::exception_ptr& error);

/// **Collective.** Every rank's bytes, in order of rank, on every rank. Throws Error{out_of_range} on all
/// where those of several ranks are 2 GiB or more.
[[nodiscard]] std::vector<std::string> all_gather(const Communicator& comm, const Run& run,
                                                  std::string_view phase, std::string mine);

}  // namespace rota::mpi
