#pragma once

// A save on a thread of its own.

#include <exception>
#include <functional>
#include <thread>

#include "collectives.hpp"
#include "commit_page.hpp"
#include "mpi/caller_thread.hpp"

namespace rota::checkpoint {

/// Runs a save while the caller's thread goes on; only that one calls MPI, when it comes by. All but the
/// constructor's `save` is for the caller's thread.
class Background {
 public:
  /// Starts `save`, whose operations of `ranks` go through the caller's thread until this dies. Where
  /// there can be no thread, `finish` runs it.
  Background(Collectives& ranks, std::function<CommitPage()> save);
  /// Gives up what is not finished: the save fails at its next operation. Waits for calls that block in MPI,
  /// until the deadline.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Moves it on without waiting. Whether it has ended.
  bool poll();
  /// **Collective.** Waits for its end, once. Throws what the save threw.
  CommitPage finish();

 private:
  Collectives* ranks_;
  mpi::CallerThread caller_;
  CommitPage page_;
  std::exception_ptr error_;
  std::function<CommitPage()> save_;
  std::jthread thread_;
};

}  // namespace rota::checkpoint
