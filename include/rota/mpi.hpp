#pragma once

// MPI for rota: a communicator of its own, collective errors, a guard for programs and an orderly stop.
// The library calls MPI only through these, on the caller's thread. Next: catalog.hpp.

#include <mpi.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/world.hpp"

namespace rota::mpi {

/// The caller's place in `comm`. Throws Error{invalid_argument} before MPI_Init.
World world(MPI_Comm comm);

/// A duplicate of the caller's communicator, with errors returned instead of fatal, freed on destruction
/// (before MPI_Finalize). A default-made one is a world of one process that needs no MPI at all. Move-only;
/// one thread. Functions that take one are **collective** over it: all its ranks call them together.
class Communicator {
 public:
  Communicator() noexcept = default;
  /// **Collective** over `comm`. Throws Error{invalid_argument} before MPI_Init or after MPI_Finalize.
  explicit Communicator(MPI_Comm comm);
  ~Communicator();
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;

  /// Which slice of the data belongs to this process: number rank() of size(), unless `data_parallel` made
  /// the communicator.
  [[nodiscard]] World world() const noexcept { return world_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// MPI_COMM_NULL for a world of one that needs no MPI.
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  /// **Collective.** Another one of the same ranks, with the same world().
  [[nodiscard]] Communicator duplicate() const;
  /// Forgets the communicator without freeing it: operations that will never end are under way on it.
  void abandon() noexcept { comm_ = MPI_COMM_NULL; }

 private:
  friend Communicator data_parallel(const Communicator& comm, int rank);
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  World world_;
};

/// Throws Error{io} naming `call` unless `code` is MPI_SUCCESS.
void check(int code, std::string_view call);

/// **Collective.** Ends a phase: returns if no rank has an `error`, else throws on every rank the same Error,
/// the one of the lowest failing rank, its message headed by "rank r: ".
void agree(const Communicator& comm, std::string_view phase, const std::exception_ptr& error);

/// **Collective.** Runs `work` on every rank, then agrees: what one rank throws, all throw.
void together(const Communicator& comm, std::string_view phase, const std::function<void()>& work);

/// **Collective.** Rank 0's `value` on every rank.
std::string broadcast(const Communicator& comm, std::string value);
void broadcast(const Communicator& comm, std::span<std::byte> value);

/// **Collective.** Element-wise sum, minimum or maximum over ranks, in place.
void sum(const Communicator& comm, std::span<double> values);
void sum(const Communicator& comm, std::span<std::int64_t> values);
void min(const Communicator& comm, std::span<std::int64_t> values);
void max(const Communicator& comm, std::span<std::int64_t> values);

/// **Collective.** Every rank's `value`, in order of rank, on every rank.
std::vector<std::int64_t> gather(const Communicator& comm, std::int64_t value);

/// **Collective.** A duplicate of `comm` for tensor, pipeline or context parallel training: processes that
/// say the same data-parallel `rank` are replicas, and get the same slice of the data. Its `world()` is that
/// rank, the number of different ones, and this process's number among its replicas, in the order of `comm`.
/// Under the usual numbering with tensor parallel ranks innermost and pipeline stages outermost, `rank` is
/// comm.rank() / tensor % data. Throws Error{invalid_argument} on all ranks unless each of 0 to some highest
/// is said, and all equally often.
Communicator data_parallel(const Communicator& comm, int rank);

/// What MPI is asked for: calls from one thread, the main one, or from any.
enum class ThreadLevel { funneled, multiple };

/// Starts MPI and ends it, for programs that want no more of it than that. One per process, made first in
/// `main`.
class Session {
 public:
  /// MPI_Init_thread with that level, unless MPI runs already (then it is left running at the end, too).
  /// Throws Error{io} where MPI cannot start.
  Session(int& argc, char**& argv, ThreadLevel level = ThreadLevel::funneled);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] World world() const noexcept { return comm_.world(); }

  /// Runs `body` and returns its value, the program's exit code. An exception that leaves it is printed to
  /// standard error, with the rank, and ends the whole job with a non-zero code. A failing rank waits up to a
  /// second for the others: where all fail, the job ends in order with exit code 1, and what they have in
  /// common is printed once; where it is alone, or a deadline was missed, MPI_Abort ends the job.
  int run(const std::function<int()>& body);

 private:
  bool owns_ = false;
  Communicator comm_;
  Communicator guard_;  // for failures alone, so that nothing else can be waiting on it
};

/// Turns SIGTERM or SIGUSR1 on any rank into a decision that all ranks take at the same step.
/// Handlers are set on construction and the former ones put back on destruction. One per process. *One
/// thread.*
class StopSignal {
 public:
  /// `comm` must outlive it. Throws Error{busy} where this process has one already.
  explicit StopSignal(const Communicator& comm);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// **Collective**, one small reduction: true on all ranks from the first call by which any rank was
  /// signalled.
  bool requested();

 private:
  const Communicator* comm_;
  bool requested_ = false;
  std::array<struct sigaction, 2> former_{};
};

}  // namespace rota::mpi
