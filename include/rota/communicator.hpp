#pragma once

// Groups of ranks that load, save and stop together, whatever carries their messages. Next: mpi.hpp, which
// makes them in MPI jobs.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "rota/world.hpp"

namespace rota {

namespace ranks {
class Exchange;
}  // namespace ranks

/// A group of ranks, and a deadline. `mpi::Session` and `mpi::communicator` make one of MPI;
/// `rota.torch.Communicator` makes one of torch.distributed, in Python. A default-made one is this process
/// alone. Move-only; one thread. Functions that take a Communicator are **collective** over it: all its ranks
/// call them together.
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
  /// How long ranks wait for one that makes no progress, unless it is said otherwise.
  static constexpr std::chrono::milliseconds kDeadline = std::chrono::minutes(10);

  Communicator() noexcept;
  ~Communicator();
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;

  /// The slice of the data that this process reads: rank() of size(), unless `data_parallel` made it.
  [[nodiscard]] World world() const noexcept { return world_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// The same ranks once more, with the same world() and deadline, or another one. 0 is none. **Collective.**
  [[nodiscard]] Communicator duplicate() const;
  [[nodiscard]] Communicator duplicate(std::chrono::milliseconds deadline) const;

  /// A duplicate for tensor, pipeline or context parallel training. **Collective.** Processes that pass the
  /// same data-parallel `rank` are replicas, and read the same slice. The result's `world()` has that rank,
  /// the number of different ranks, and the process's number among its replicas, in the order of ranks.
  /// Example: with tensor parallel ranks innermost and pipeline stages outermost, `rank` is comm.rank() /
  /// tensor % data. Throws Error{invalid_argument} on all ranks unless 0 to some highest rank are passed, all
  /// equally often.
  [[nodiscard]] Communicator data_parallel(int rank) const;

  /// Runs `work` on every rank, then agrees: what one rank throws, all throw. **Collective.**
  void together(std::string_view phase, const std::function<void()>& work) const;

  /// Element-wise sum, minimum or maximum over ranks, in place. **Collective.** Whole numbers wrap around.
  void sum(std::span<double> values) const;
  void sum(std::span<float> values) const;  ///< as doubles, rounded in the end
  void sum(std::span<std::int64_t> values) const;
  void sum(std::span<std::uint64_t> values) const;
  void min(std::span<std::int64_t> values) const;
  void max(std::span<std::int64_t> values) const;

 private:
  friend struct CommunicatorAccess;
  explicit Communicator(std::unique_ptr<ranks::Exchange> exchange);
  int rank_ = 0;
  int size_ = 1;
  World world_;
  std::unique_ptr<ranks::Exchange> exchange_;  // none for a process alone
};

/// Makes all ranks stop at the same step after SIGTERM or SIGUSR1 on any of them. The constructor installs
/// handlers; the destructor puts the former ones back, and a forked child has those. One per process. *One
/// thread.*
class StopSignal {
 public:
  /// `comm` must outlive it. Throws Error{busy} where this process has a StopSignal already.
  [[nodiscard]] explicit StopSignal(const Communicator& comm);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True on all ranks once any rank was signalled. **Collective**: one small reduction. Throws Error{busy}
  /// on all where other code has put handlers of its own on one.
  [[nodiscard]] bool requested();

 private:
  const Communicator* comm_;
  bool requested_ = false;
};

}  // namespace rota
