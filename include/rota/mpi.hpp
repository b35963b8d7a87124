#pragma once

// MPI for rota: its own communicator, collective errors, a session for programs, and an orderly stop. The
// library calls MPI only through these, on the caller's thread. Next: catalog.hpp.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "rota/world.hpp"

namespace rota::mpi {

/// The caller's rank in `comm`. Throws Error{invalid_argument} before MPI_Init, for MPI_COMM_NULL and for an
/// intercommunicator.
World world(MPI_Comm comm);

/// How long the ranks of a communicator wait for one that makes no progress, unless it says otherwise.
inline constexpr std::chrono::milliseconds kDeadline = std::chrono::minutes(10);

class Exchange;

/// A duplicate of the caller's communicator, and a deadline. MPI errors are returned on it, not fatal. Freed
/// on destruction, which must come before MPI_Finalize. A default-made one is a world of one process, and
/// needs no MPI. Move-only; one thread. Functions that take a Communicator are **collective** over it: all
/// its ranks call them together.
///
/// All that waits for other ranks does so until the deadline. Then it throws Error{timeout} on all ranks that
/// wait, and names those that did not come. The communicator is then of no use any more: all calls throw
/// Error{timeout}. End the job. The deadline runs anew with each sign of progress: a rank may list files for
/// an hour while others wait.
///
/// Functions throw Error{invalid_argument} for a communicator that was moved from, which has size() 0, on
/// that rank alone: nothing is left by which to tell the others. So they throw Error{unsupported} in a forked
/// child, which is no rank, for any but a default-made one.
class Communicator {
 public:
  Communicator() noexcept;
  /// **Collective** over `comm`. A `deadline` of 0 is none. Throws Error{invalid_argument} for a negative
  /// one, before MPI_Init or after MPI_Finalize, for an intercommunicator, and for MPI_COMM_NULL, which
  /// MPI_Comm_split gives ranks that take no part.
  explicit Communicator(MPI_Comm comm, std::chrono::milliseconds deadline = kDeadline);
  ~Communicator();
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;

  /// The slice of the data that this process reads: rank() of size(), unless `data_parallel` made the
  /// communicator.
  [[nodiscard]] World world() const noexcept { return world_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// MPI_COMM_NULL for a world of one that needs no MPI. Tags from 32,000 on are the library's.
  [[nodiscard]] MPI_Comm get() const noexcept;
  /// A duplicate of the same ranks, with the same world() and deadline, or another one. **Collective.**
  [[nodiscard]] Communicator duplicate() const;
  [[nodiscard]] Communicator duplicate(std::chrono::milliseconds deadline) const;
  /// Leaks the communicator: operations that will never end are under way on it.
  void abandon() const noexcept;

 private:
  friend Communicator data_parallel(const Communicator& comm, int rank);
  friend Exchange& exchange_of(const Communicator& comm);
  friend void require_ranks(const Communicator& comm);
  explicit Communicator(std::unique_ptr<Exchange> exchange);
  int rank_ = 0;
  int size_ = 1;
  World world_;
  std::unique_ptr<Exchange> exchange_;  // none in a world of one without MPI
};

/// Runs `work` on every rank, then agrees: what one rank throws, all throw. **Collective.**
void together(const Communicator& comm, std::string_view phase, const std::function<void()>& work);

/// Element-wise sum, minimum or maximum over ranks, in place. **Collective.**
void sum(const Communicator& comm, std::span<double> values);
void sum(const Communicator& comm, std::span<std::int64_t> values);
void min(const Communicator& comm, std::span<std::int64_t> values);
void max(const Communicator& comm, std::span<std::int64_t> values);

/// A duplicate of `comm` for tensor, pipeline or context parallel training. **Collective.** Processes that
/// pass the same data-parallel `rank` are replicas, and read the same slice. The result's `world()` has that
/// rank, the number of different ranks, and the process's number among its replicas, in the order of `comm`.
/// Example: with tensor parallel ranks innermost and pipeline stages outermost, `rank` is comm.rank() /
/// tensor % data. Throws Error{invalid_argument} on all ranks unless 0 to some highest rank are passed, all
/// equally often.
Communicator data_parallel(const Communicator& comm, int rank);

/// The thread level asked of MPI: calls from the main thread only, or from any.
enum class ThreadLevel { funneled, multiple };

/// Starts and ends MPI, for programs that need no more control. One per process, made first in `main`.
class Session {
 public:
  /// Calls MPI_Init_thread with `level`. If MPI runs already, it is neither started nor ended. `deadline` is
  /// that of comm(). Throws Error{io} where MPI cannot start; Error{invalid_argument} where it has one
  /// process, and the launcher says that there are more: the program is linked to another MPI.
  Session(int& argc, char**& argv, ThreadLevel level = ThreadLevel::funneled,
          std::chrono::milliseconds deadline = kDeadline);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] World world() const noexcept { return comm_.world(); }

  /// Runs `body` and returns its value, the exit code of the program. An exception that leaves it is printed
  /// to standard error, with the rank, and ends the whole job with a non-zero code. The failing rank first
  /// waits about a second for the others. If all fail, the job ends in order with exit code 1, and a common
  /// message is printed once. If it failed alone, or after a missed deadline, MPI_Abort ends the job.
  int run(const std::function<int()>& body);

 private:
  bool owns_ = false;
  Communicator comm_;
  Communicator guard_;  // for failures alone, so that nothing else can be waiting on it
};

/// Makes all ranks stop at the same step after SIGTERM or SIGUSR1 on any of them. The constructor installs
/// handlers; the destructor puts the former ones back. One per process. *One thread.*
class StopSignal {
 public:
  /// `comm` must outlive it. Throws Error{busy} where this process has a StopSignal already.
  [[nodiscard]] explicit StopSignal(const Communicator& comm);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True on all ranks once any rank was signalled. **Collective**: one small reduction.
  [[nodiscard]] bool requested();

 private:
  const Communicator* comm_;
  bool requested_ = false;
};

}  // namespace rota::mpi
