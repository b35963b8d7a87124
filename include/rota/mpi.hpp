#pragma once

// rota in MPI jobs: communicators of MPI, and a session for programs. The library calls MPI on the caller's
// thread only. Next: catalog.hpp.

#include <mpi.h>

#include <chrono>
#include <functional>

#include "rota/communicator.hpp"

namespace rota::mpi {

/// The caller's rank in `comm`. Throws Error{invalid_argument} before MPI_Init, for MPI_COMM_NULL and for an
/// intercommunicator.
World world(MPI_Comm comm);

/// A duplicate of the caller's communicator, with a deadline; 0 is none. **Collective** over `comm`. MPI
/// errors are returned on it, not fatal. It is freed on destruction, which must come before MPI_Finalize.
/// Throws Error{invalid_argument} for a negative deadline, before MPI_Init or after MPI_Finalize, for an
/// intercommunicator, and for MPI_COMM_NULL, which MPI_Comm_split gives ranks that take no part.
[[nodiscard]] Communicator communicator(MPI_Comm comm,
                                        std::chrono::milliseconds deadline = Communicator::kDeadline);

/// What is behind a communicator; MPI_COMM_NULL where that is not MPI. Tags from 32,000 on are the library's.
[[nodiscard]] MPI_Comm handle_of(const Communicator& comm) noexcept;

/// The thread level asked of MPI: calls from the main thread only, or from any.
enum class ThreadLevel { funneled, multiple };

/// Starts and ends MPI, for programs that need no more control. One per process, made first in `main`.
class Session {
 public:
  /// Calls MPI_Init_thread with `level`. If MPI runs already, it is neither started nor ended. `deadline` is
  /// that of comm(). Throws Error{io} where MPI cannot start; Error{invalid_argument} where it has one
  /// process, and the launcher says that there are more: the program is linked to another MPI.
  Session(int& argc, char**& argv, ThreadLevel level = ThreadLevel::funneled,
          std::chrono::milliseconds deadline = Communicator::kDeadline);
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

}  // namespace rota::mpi
