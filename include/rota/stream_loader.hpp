#pragma once

// The loader of streams. Ranks own whole shards, read ahead with worker threads, and agree on each step and
// on the end without stalling. Next: snapshot.hpp.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/batch.hpp"
#include "rota/loader_options.hpp"
#include "rota/stats.hpp"
#include "rota/stream.hpp"
#include "rota/world.hpp"

namespace rota {

class Checkpoint;
class Snapshot;
class Communicator;

/// A source that exists once: a pipe, a socket, a database cursor. Rank 0 reads it, and sends its items to
/// all ranks.
///
/// Item i of an epoch is number i / L of logical shard i mod L. Each step's batch is the next B items, sorted
/// by (shard, position); an epoch's last one is shorter. So batches are the same in all worlds.
///
/// Rank 0 reads ahead in a thread of its own, from the first `next` on, so after a restore. It sends inside
/// `StreamLoader::next`, which makes all MPI calls (MPI_THREAD_FUNNELED will do). At most
/// `read_ahead_batches` batches are read and not yet delivered; then reading waits.
///
/// **Sources that cannot be opened at a cursor.** A save stores each item that was read and not delivered. So
/// nothing is lost if the program saves, ends in order, and resumes in any world. Such a source goes on where
/// it stands. Its `cursor` counts items, and its `open` refuses any other number. Items that it has read and
/// not yielded go into the cursor's blob. A second epoch, a killed run, and an error of the source or a
/// transform need a source that can be opened again. After such an error a save opens it behind what was
/// read, or throws.
///
/// A save, and the loader's end, wait for the item that is being read. With `workers` = 0 items are read only
/// inside `next`: use it for a source that may be silent. By default all sources with the same fields have
/// the same fingerprint: override it to tell them apart.
struct Dispatch {
  /// It has one shard; so do transforms of it. Needed on rank 0 only, and ignored on other ranks.
  std::shared_ptr<const StreamSource> source = nullptr;
  std::int64_t shards = 256;  ///< L, fixed for a run; 1 to 2^24; a save takes 32 bytes each
  /// Equal slices of a batch, or whole shards: under by_shard, shard s goes to rank s % R.
  Split rank_split = Split::by_sample;
};

/// The options of a StreamLoader. All may change at a resume.
struct StreamLoaderOptions {
  /// B: the most samples per step over all ranks, divided as equally as possible; 1 to 2^31 - 1. With more
  /// than B ranks each still takes one, except in a dispatch. Memory for this rank's share is taken, even if
  /// fewer samples are left.
  std::int64_t global_batch_size = 32;
  std::int64_t epochs = 1;  ///< passes over the dataset, or kEndless
  /// Reading threads of this rank, up to 4,096; 0: the caller's, inside next(). At most one reads a
  /// dispatched source.
  int workers = 1;
  std::int64_t read_ahead_batches = 4;  ///< at most this many batches in work or ready; 1 to 65,536
  /// Reading pauses while so many bytes are read ahead, except for the next batch. Memory for samples stays
  /// under 5/2 of it and of five batches.
  std::int64_t read_ahead_bytes = std::int64_t{256} << 20;
  /// How long `next()` and `state()` wait for another rank. Then they throw Error{timeout} naming the missing
  /// ranks. It must exceed the longest time between two steps of any rank, and the longest silence of a
  /// dispatched source. 0: wait for ever.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  Allocator allocator = {};
  /// When an item counts as trained. By hand only of a Dispatch.
  Settle settle = Settle::at_delivery;
  /// Under Settle::by_hand: `next()` waits while open items of this rank, given up ones, too, have so many
  /// bytes or more, and some are out. Up to `deadline`; it then throws Error{timeout}.
  std::int64_t open_bytes = std::int64_t{256} << 20;

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// Feeds one rank from the shards that it owns, which take turns. Promised: every sample exactly once per
/// epoch, equal steps on all ranks, resume in any world. In the same world a resume gives the same batches.
/// Not promised: equal slices, and the same batches in another world. Batches that were read ahead are not
/// state. A dispatch differs: its batches are the same in all worlds, and its items read ahead are state.
///
/// Shards are distributed to ranks by StreamSource::remaining, else by number. *One thread*, which alone
/// calls MPI. Each worker thread reads a fixed set of shards; batches do not depend on the number of workers.
/// After a move every method throws Error{invalid_argument}; in a forked child, Error{unsupported}.
class StreamLoader {
 public:
  /// For all ranks of `comm`, which is duplicated. **Collective.** Starts the workers. Throws on all ranks
  /// - Error{invalid_argument}: from `options.validate()`; a null source; Settle::by_hand without a Dispatch
  /// - Error{mismatch}: sources or epochs differ between ranks
  /// - Error{unsupported}: replicas (Communicator::data_parallel)
  /// - Error{callback}: impossible fields, shards or cursor numbers
  /// - what StreamSource::remaining throws
  StreamLoader(const Communicator& comm, std::shared_ptr<const StreamSource> source,
               StreamLoaderOptions options = {});
  /// For this process alone. Also throws Error{invalid_argument} where MPI runs several ranks, each of which
  /// would read everything. If you want that, pass a default-made Communicator.
  explicit StreamLoader(std::shared_ptr<const StreamSource> source, StreamLoaderOptions options = {});
  /// The same for a source that rank 0 alone reads. **Collective.** Also throws Error{invalid_argument} for a
  /// source of several shards, and Error{mismatch} where shards or splits differ between ranks.
  StreamLoader(const Communicator& comm, const Dispatch& dispatch, StreamLoaderOptions options = {});
  explicit StreamLoader(const Dispatch& dispatch, StreamLoaderOptions options = {});
  /// Waits for this rank's reads, not for other ranks. In the midst of a run some ranks may have begun to
  /// agree on a step that others never take. The communicator then lives until MPI ends.
  ~StreamLoader();
  StreamLoader(StreamLoader&&) noexcept;
  StreamLoader& operator=(StreamLoader&&) noexcept;

  /// The next batch, or nothing after the last epoch. **Collective**: every rank gets the same number of
  /// batches. A batch is empty on a rank with nothing left of the epoch, but in each step some rank has a
  /// sample. An epoch ends when all shards are exhausted. An epoch without any sample ends the run.
  ///
  /// Waits for this rank's samples, and for the other ranks. A stream's error on one rank is thrown on all,
  /// as an Error that names rank, shard and place. The position stays: the next call tries again. Throws
  /// Error{timeout} naming the ranks that missed the deadline; then the loader is of no use any more.
  NextBatch next();

  // Settle::by_hand of a Dispatch (docs/dispatch.md), as of a Loader. Each rank keeps the bytes of what it
  // was handed out as long as that is open, and a state has them. Item i of an epoch has the id i:
  // Batch::ids. From *any thread*, but for `merge`.

  void settle(const Batch& batch);
  void settle(std::span<const SampleId> ids, std::span<const std::int64_t> epochs);
  void drop(const Batch& batch, std::string_view reason);
  void drop(std::span<const SampleId> ids, std::span<const std::int64_t> epochs, std::string_view reason);
  /// They come again after `merge`, or after a restore.
  void again(const Batch& batch);
  void again(std::span<const SampleId> ids, std::span<const std::int64_t> epochs);
  void again();
  std::vector<bool> try_settle(std::span<const SampleId> ids, std::span<const std::int64_t> epochs);
  /// By this rank, since the loader was made.
  [[nodiscard]] DroppedSamples dropped() const;
  /// **Collective**, at the same step: what was given up on any rank is handed out next, in batches of all
  /// ranks that are no steps. Waits and throws as `state`.
  void merge();

  /// The position after the last batch returned: epochs known to be complete, and steps.
  [[nodiscard]] Position position() const;
  [[nodiscard]] World world() const;
  [[nodiscard]] const StreamLoaderOptions& options() const;
  /// The source. In a dispatch it only describes itself: its `open` throws Error{unsupported}.
  [[nodiscard]] const StreamSource& source() const;
  /// The source's fingerprint, asked for once.
  [[nodiscard]] Fingerprint fingerprint() const;
  [[nodiscard]] LoaderStats stats() const;

  /// As Loader::begin_for.
  void begin_for();

 private:
  friend internal::Behind;
  class Impl;
  [[nodiscard]] Impl& impl() const;

  std::unique_ptr<Impl, internal::DeleteWhereMade> impl_;
};

/// Adds the loader's state, as "loader/<name>/...": a row and a blob for each shard, from its owner, and a
/// blob with all else (src/resume/STATE.md). Save with the ranks in the loader's order. Throws what
/// StreamSource::remaining throws, and Error{invalid_argument} where the snapshot has a loader of this name,
/// of any kind.
///
/// In a dispatch rank 0 adds a row for each shard, and each item that was read and not delivered. It waits
/// for the item that is being read. Reading stops until the next `next`, so a pipe loses nothing if the
/// program ends here.
void save(const StreamLoader& loader, Snapshot& snapshot, std::string_view name = "main");

/// Moves the loader to where the checkpoint's loader was, in any world. In a world of the same size shards
/// keep their owners. In another, shards are distributed anew for this epoch by what remains in them. A long
/// cursor, such as a shuffle buffer's blob, may be some samples old. These are read again and dropped: about
/// as many bytes as the cursor has. In a dispatch, what was open comes first, then pending items. Not
/// collective, but all ranks call it at the same step. What is refused leaves the loader as it was, with all
/// that it has read ahead. Throws Error{corrupt}, and Error{mismatch}, with both values, for another dataset
/// or kind of loader. Throws Error{unsupported} for a state of a newer version, Error{not_found} without a
/// loader of that name.
void restore(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name = "main");

/// The loader's state as JSON text, the same on all ranks, for programs that keep it elsewhere.
/// **Collective** over the loader's ranks. A shard takes some 50 bytes, 7 more for each number of its cursor
/// (more for large numbers), and 4/3 of its blob's bytes. In a dispatch, shards and pending items take some
/// 30 bytes each, plus 4/3 of the items' bytes. Waits and throws as `save` does, on all ranks. Throws
/// Error{timeout} as `next` does, and Error{out_of_range} where several ranks have 2 GiB or more: use a
/// checkpoint then.
std::string state(const StreamLoader& loader);

/// Moves the loader to where `state` says, in any world, as from a checkpoint. Not collective, but all ranks
/// call it at the same step with the same text. Throws as the one above, and Error{corrupt} for any other
/// text. What is refused leaves the loader as it was.
void restore(StreamLoader& loader, std::string_view state);

}  // namespace rota
