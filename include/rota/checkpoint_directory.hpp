#pragma once

// A directory of checkpoints. All ranks save together, a file appears whole, and the newest good one is found
// again. Works without the loader. Next: resume.hpp.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/checkpoint.hpp"
#include "rota/communicator.hpp"
#include "rota/snapshot.hpp"
#include "rota/storage.hpp"
#include "rota/world.hpp"

namespace rota {

/// How many checkpoints of its run a directory keeps. A run goes on where a job restores its newest one.
/// Those of other runs stay, and the first save beside such tells the MessageSink. Also kept is the last one
/// that `latest` or `open` of this object verified, until they verify a later one.
struct CheckpointPolicy {
  std::int64_t keep_last = 2;   ///< the newest ones; at least 1
  std::int64_t keep_every = 0;  ///< and for ever each one of a step that it divides; 0: none
  /// How long the other ranks wait for a rank. Then they throw Error{timeout}. 0: wait for ever. It must
  /// exceed the longest phase on any rank, such as allocating the file on rank 0, or writing a rank's rows. A
  /// rank that is merely late counts as missing.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Where rank 0 copies each checkpoint to, in the background: stored_path("s3://bucket/run"). One job at a
  /// time has it. Of checkpoints that wait for an earlier one, only the newest is copied. Nothing is deleted
  /// there. `latest` looks there, too, and brings what the directory lacks. A copy that comes damaged is
  /// brought once more.
  StoredPath mirror = {};

  /// Throws Error{invalid_argument} for values that can never work.
  void validate() const;
};

/// What a save did.
struct SaveReport {
  CheckpointInfo info;
  double seconds = 0;
  /// On rank 0: what could not be copied to the mirror since the last report, and why; empty: nothing. It is
  /// told to the MessageSink, too. The checkpoint is saved all the same.
  std::string mirror_error = {};
};

/// A directory of checkpoints, `checkpoint-<serial, 12 digits>.h5`. It belongs to one job at a time. Whatever
/// bears such a name and is no regular file (a directory, a FIFO, a broken link) counts as damaged.
/// **Collective** throughout: all ranks call the same, and all return or all throw the same Error. *One
/// thread.* After a move every method but `poll` throws Error{invalid_argument}; in a forked child,
/// Error{unsupported}.
class CheckpointDirectory {
 public:
  /// A damaged checkpoint that `latest` or `restore_all` rejected.
  struct Rejected {
    std::filesystem::path path;
    std::string reason;
  };

  /// Creates `path` if need be, on disk when this returns, and locks it. Duplicates `comm`. Throws
  /// Error{busy} where another job has the lock, Error{io} where it cannot be made or written, and what the
  /// mirror throws when it is listed.
  CheckpointDirectory(const Communicator& comm, std::filesystem::path path,
                      const CheckpointPolicy& policy = {});
  /// Waits for a save in the background, and tells the MessageSink what it fails at. While an exception is
  /// under way the save is given up instead: other ranks may never come. Then waits for copies to the mirror.
  ~CheckpointDirectory();
  CheckpointDirectory(CheckpointDirectory&&) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&&) noexcept;

  /// An empty one, to be saved here. It knows whether several ranks save: a loader then adds its share, else
  /// all of its state. Not collective.
  [[nodiscard]] Snapshot new_snapshot() const;

  /// Writes `snapshot` as the newest checkpoint, then deletes what the policy does not keep of this run. When
  /// it returns, the file is complete and on disk. When it throws, the directory is as before, unless the
  /// file system refuses to remove the new file.
  ///
  /// Error{timeout} is the exception: a rank missed the policy's deadline. The new file is complete or
  /// absent. This object is of no use any more: all calls throw Error{timeout}. End the job.
  SaveReport save(std::int64_t step, const Snapshot& snapshot);
  /// Saves what `fill` puts into a new snapshot. What it throws on one rank, all ranks throw.
  SaveReport save_with(std::int64_t step, const std::function<void(Snapshot&)>& fill);

  /// The same in the background: copies what `snapshot` views, takes over what it owns, and returns. A thread
  /// writes. Ranks exchange messages only inside `poll` and `wait`, on the caller's thread:
  /// MPI_THREAD_FUNNELED will do. Only one save is under way at a time. A second call waits for the first, as
  /// `wait` does; if that failed, it throws the error and saves nothing.
  ///
  /// An error is thrown by the next collective call of this object. The thread uses HDF5, which is not
  /// thread-safe: use HDF5 yourself only when no save is under way.
  void save_async(std::int64_t step, Snapshot snapshot);
  void save_async_with(std::int64_t step, const std::function<void(Snapshot&)>& fill);
  /// Moves a background save on, without waiting: call it every step. True if no save is under way. Not
  /// collective. Throws nothing.
  bool poll() noexcept;
  /// Waits for the background save and throws its error; returns nothing without one. The deadline applies
  /// inside this call, not between calls of `poll`.
  std::optional<SaveReport> wait();

  /// Gives a background save up, as one rank that fails must before it destroys this object; the earlier
  /// checkpoints stay. Not collective, but a save that one rank gives up, no rank finishes.
  void give_up_save() noexcept;

  /// Waits until all checkpoints are copied to the mirror, if there is one: call it before the job ends.
  /// Throws Error{io} naming what could not be copied since the last report. The deadline applies.
  void wait_for_mirror();

  /// Builds the snapshot of `states` and saves it. A state has a member `save(Snapshot&) const` or a function
  /// `save(const State&, Snapshot&)`; or it comes as `named("valid", loader)`. What one throws on one rank,
  /// all ranks throw.
  template <typename... States>
  SaveReport save_all(std::int64_t step, const States&... states);
  template <typename... States>
  void save_all_async(std::int64_t step, const States&... states);

  /// The newest checkpoint that verifies; nothing in an empty directory. It goes back to an older one only
  /// past damage. Throws Error{corrupt} where all are damaged, and Error{unsupported} for a newer format
  /// version. Throws Error{io} or Error{not_found} where any rank cannot read a file that may be good, and
  /// what the mirror throws: without it nobody knows which is the newest.
  std::optional<Checkpoint> latest();
  /// Calls `read` with the newest checkpoint that verifies, and returns that; nothing in an empty directory.
  /// What it throws on one rank, all ranks throw. Error{corrupt}, as a loader throws whose state is damaged
  /// in itself, counts as damage: it is called with an older checkpoint.
  std::optional<Checkpoint> restore_with(const std::function<void(const Checkpoint&)>& read);
  /// Restores `states` so. A state has a member `restore(const Checkpoint&)` or a function `restore(State&,
  /// const Checkpoint&)`. Where one throws, some may be restored.
  template <typename... States>
  std::optional<Checkpoint> restore_all(States&&... states);
  /// The checkpoints that the last `latest` or `restore_all` rejected, and why.
  [[nodiscard]] std::span<const Rejected> rejected() const;

  /// The checkpoint of that serial. Throws Error{not_found}, Error{io}, Error{corrupt}, Error{unsupported}.
  Checkpoint open(std::int64_t serial);

  /// All checkpoints with a commit page that verifies, as these pages describe them, oldest first.
  std::vector<CheckpointInfo> list();

  [[nodiscard]] const std::filesystem::path& path() const;

  /// Whether the directory is locked. Some file systems have no such locks. Then only you keep other jobs
  /// from writing to it, and the temporary files of dead jobs stay.
  [[nodiscard]] bool is_locked() const;

 private:
  friend class CheckpointDirectoryAccess;
  void finish() noexcept;
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

template <typename State>
void save_as(const State& state, Snapshot& snapshot, std::string_view name) {
  save(state, snapshot, name);
}
template <typename State>
void restore_as(State& state, const Checkpoint& checkpoint, std::string_view name) {
  restore(state, checkpoint, name);
}

/// What `named` returns.
template <typename State>
struct Named {
  std::string name;
  State& state;
  void save(Snapshot& snapshot) const { save_as(state, snapshot, name); }
  void restore(const Checkpoint& checkpoint) const { restore_as(state, checkpoint, name); }
};
}  // namespace internal

/// A state under a name of its own, for `save_all` and `restore_all` of several.
///
///     checkpoints.save_all(step, named("train", train), named("valid", valid), model);
///
/// It needs functions `save(const State&, Snapshot&, name)` and `restore(State&, const Checkpoint&, name)`;
/// loaders have them. By itself a loader is called "main".
template <typename State>
internal::Named<State> named(std::string name, State& state) {
  return {std::move(name), state};
}

template <typename... States>
SaveReport CheckpointDirectory::save_all(std::int64_t step, const States&... states) {
  static_assert(sizeof...(States) > 0, "name what is to be saved");
  return save_with(step, [&](Snapshot& snapshot) { (internal::add_state(states, snapshot), ...); });
}

template <typename... States>
void CheckpointDirectory::save_all_async(std::int64_t step, const States&... states) {
  static_assert(sizeof...(States) > 0, "name what is to be saved");
  save_async_with(step, [&](Snapshot& snapshot) { (internal::add_state(states, snapshot), ...); });
}

template <typename... States>
std::optional<Checkpoint> CheckpointDirectory::restore_all(States&&... states) {
  static_assert(sizeof...(States) > 0, "name what is to be restored");
  return restore_with(
      [&](const Checkpoint& checkpoint) { (internal::restore_state(states, checkpoint), ...); });
}

}  // namespace rota
