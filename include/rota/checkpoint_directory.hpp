#pragma once

// A directory of checkpoints: saved by all ranks together, published atomically, the newest good one found
// again. Of use without the loader. Next: resume.hpp.

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rota/checkpoint.hpp"
#include "rota/mpi.hpp"
#include "rota/snapshot.hpp"
#include "rota/world.hpp"

namespace rota {

/// How ranks write the tensors of one file. Both leave the same bytes.
enum class Writer {
  /// Each rank writes its rows by itself, with POSIX calls: the fastest where the file system is a local one,
  /// or one that keeps apart what several nodes write into one page of a file.
  direct,
  /// All ranks write together through MPI-IO, a few of them for all: for file systems that want that. It is
  /// to be ROMIO, and MPI is to run with MPI_THREAD_MULTIPLE; otherwise the constructor of
  /// CheckpointDirectory throws Error{unsupported} and says what to do. Without MPI it is the same as
  /// `direct`.
  collective,
};

/// How many checkpoints a directory keeps. The last one that `latest` or `open` of the same object has read
/// and verified is kept beside these until a later one has been: what was saved since has not been read yet.
struct CheckpointPolicy {
  std::int64_t keep_last = 2;   ///< the newest ones; at least 1
  std::int64_t keep_every = 0;  ///< and those whose serial it divides, for ever; 0: none
  /// How long the other ranks wait for a rank. When it is over they throw Error{timeout}. 0 = wait for ever.
  /// It must exceed the longest phase on any rank, such as rank 0's allotting of the file, or a rank's
  /// writing of its rows: a rank that is merely late counts as missing.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  Writer writer = Writer::direct;

  /// Throws Error{invalid_argument} for values that can never work.
  void validate() const;
};

/// What a save did.
struct SaveReport {
  CheckpointInfo info;
  double seconds = 0;
};

/// A damaged candidate, which `latest` did not take.
struct RejectedCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

/// A directory of checkpoints, `checkpoint-<serial, 12 digits>.h5`, that belongs to one job at a time. What
/// is no regular file under such a name (a directory, a FIFO, a link to nothing) counts as damaged.
/// **Collective** throughout: all ranks call the same, and all return or all throw the same Error. *One
/// thread.* One that was moved from throws Error{invalid_argument} from every method but `poll`, one in a
/// forked child Error{unsupported}.
class CheckpointDirectory {
 public:
  /// Creates `path` if need be, on disk when this returns, and locks it. Throws Error{busy} where another job
  /// holds it, Error{io} where it cannot be made or written. Keeps a duplicate of `comm`'s communicator.
  CheckpointDirectory(const mpi::Communicator& comm, std::filesystem::path path,
                      CheckpointPolicy policy = {});
  ~CheckpointDirectory();
  CheckpointDirectory(CheckpointDirectory&&) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&&) noexcept;

  /// Writes `snapshot` as the newest checkpoint, and drops what the policy does not keep. When it returns,
  /// the file is complete and on disk; when it throws, what was there before still is, and nothing else (but
  /// for what the file system then refuses to remove).
  /// Error{timeout} is the exception: a rank missed the deadline of the policy, the new file may be there
  /// (then it is complete) or not, and this object is of no use any more: all calls throw Error{timeout}. End
  /// the job. Where that befalls a collective write, memory that the snapshot views must live until then.
  SaveReport save(std::int64_t step, const Snapshot& snapshot);

  /// The same in the background: copies what `snapshot` views (what it owns is taken over), and returns.
  /// Everything else happens on a thread of its own; exchanges between ranks move on whenever this thread
  /// comes by in `poll` or `wait`, so MPI_THREAD_FUNNELED will do. Only one is under way at a time: one
  /// that still is, is waited for first, as by `wait`, and if it failed this throws what it threw and saves
  /// nothing.
  ///
  /// What fails meanwhile is thrown by the next collective call of this object. The thread uses HDF5, which
  /// is not thread-safe: use HDF5 yourself only when nothing is under way. Destroying this object gives up a
  /// save that is under way, and the one before stays: all ranks are to do so together. A collective write
  /// that has begun is waited for until the deadline, for MPI does not let go of it.
  void save_async(std::int64_t step, Snapshot snapshot);
  /// Moves a save in the background on, without waiting: call it every step. Whether none is under way any
  /// more. Not collective. Throws nothing.
  bool poll() noexcept;
  /// Waits for the save in the background, and throws what it threw; nothing where there is none. Only here,
  /// and not between calls of `poll`, ranks are missed when the deadline of the policy has passed.
  std::optional<SaveReport> wait();

  /// Builds the snapshot of `states` and saves it: each is added by its member `save(Snapshot&) const` or by
  /// the function `save(const State&, Snapshot&)`. What one of them throws on one rank is thrown on all.
  template <typename... States>
  SaveReport save_all(std::int64_t step, const States&... states);
  template <typename... States>
  void save_all_async(std::int64_t step, const States&... states);

  /// The newest checkpoint that verifies; nothing where the directory holds none. Only what is damaged is
  /// passed over. Throws Error{corrupt} where there are some and none is good, Error{unsupported} for a newer
  /// format version, and Error{io} or Error{not_found} where any rank cannot read a file now that may be
  /// good: an older state is no answer to that.
  std::optional<Checkpoint> latest();
  /// Restores `states` from the newest checkpoint that verifies, each by its member `restore(const
  /// Checkpoint&)` or by the function `restore(State&, const Checkpoint&)`; nothing where the directory holds
  /// none. What one of them throws on one rank is thrown on all; states may be restored in part then.
  template <typename... States>
  std::optional<Checkpoint> restore_all(States&... states);
  /// What the last `latest` did not take, and why.
  [[nodiscard]] std::span<const RejectedCheckpoint> rejected() const;

  /// The checkpoint of that serial. Throws Error{not_found}, Error{io}, Error{corrupt}, Error{unsupported}.
  Checkpoint open(std::int64_t serial);

  /// What is there, oldest first, as the commit pages say; only those whose commit page verifies.
  std::vector<CheckpointInfo> list();

  [[nodiscard]] const std::filesystem::path& path() const;

  /// Whether the directory is locked. Where its file system has no such locks it is not, and nothing but the
  /// caller's care keeps other jobs from writing there; what jobs that died have left stays there, too.
  [[nodiscard]] bool is_locked() const;

 private:
  friend class CheckpointDirectoryAccess;
  SaveReport save_or_agree(std::int64_t step, const Snapshot& snapshot, std::exception_ptr error);
  void start_save(std::int64_t step, Snapshot snapshot, std::exception_ptr error);
  void agree_on_restore(std::exception_ptr error);
  struct Impl;
  explicit CheckpointDirectory(Impl* impl) noexcept;
  [[nodiscard]] Impl& impl() const;
  std::unique_ptr<Impl, internal::DeleteWhereMade> impl_;
};

// ---- templates ----

namespace internal {
template <typename State>
void add_state(const State& state, Snapshot& snapshot) {
  if constexpr (requires { state.save(snapshot); }) {
    state.save(snapshot);
  } else {
    save(state, snapshot);
  }
}

template <typename State>
void restore_state(State& state, const Checkpoint& checkpoint) {
  if constexpr (requires { state.restore(checkpoint); }) {
    state.restore(checkpoint);
  } else {
    restore(state, checkpoint);
  }
}

/// What `work` throws; null where it does not.
template <typename Work>
std::exception_ptr error_of(Work&& work) {
  try {
    work();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}
}  // namespace internal

template <typename... States>
SaveReport CheckpointDirectory::save_all(std::int64_t step, const States&... states) {
  Snapshot snapshot;
  const auto error = internal::error_of([&] { (internal::add_state(states, snapshot), ...); });
  return save_or_agree(step, snapshot, error);
}

template <typename... States>
void CheckpointDirectory::save_all_async(std::int64_t step, const States&... states) {
  Snapshot snapshot;
  const auto error = internal::error_of([&] { (internal::add_state(states, snapshot), ...); });
  start_save(step, std::move(snapshot), error);
}

template <typename... States>
std::optional<Checkpoint> CheckpointDirectory::restore_all(States&... states) {
  std::optional<Checkpoint> checkpoint = latest();
  if (!checkpoint) return std::nullopt;
  agree_on_restore(internal::error_of([&] { (internal::restore_state(states, *checkpoint), ...); }));
  return checkpoint;
}

}  // namespace rota
