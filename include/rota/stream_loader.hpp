#pragma once

// The loader of streams: ranks own whole shards, read ahead with worker threads, and agree on every step and
// on the end without stalling. Next: snapshot.hpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/batch.hpp"
#include "rota/loader_options.hpp"
#include "rota/stream.hpp"
#include "rota/world.hpp"

namespace rota {

class Checkpoint;
class Snapshot;
namespace mpi {
class Communicator;
}
namespace internal {
class StreamBatchPool;
class StreamState;
struct StreamBatchMemory;
}  // namespace internal

/// A source that there is only once: a pipe, a socket, the cursor of a database. One rank reads it and hands
/// its items out to all.
///
/// What is read by rank 0 alone. Item i of an epoch is number i / L of logical shard i mod L, and no more is
/// to be known of a source to say who gets which: a step's batch is the next B items, in order of (shard,
/// position), and the last one of an epoch is shorter. So all worlds have the same batches.
///
/// Rank 0 reads ahead with a thread of its own and pushes items to their ranks from inside
/// `StreamLoader::next`, where all MPI is called (MPI_THREAD_FUNNELED will do). Of what ranks have not been
/// handed yet there are `read_ahead_batches` batches at most, and the reading waits until one of these is. It
/// begins with the first `next`, behind a restore.
///
/// What was read and not delivered is saved item by item, so that a source that cannot be opened at a cursor
/// loses nothing where a program saves, ends in order, and goes on at another world size. Such a source goes
/// on where it stands, and its `cursor` counts items, by which its `open` refuses another place; what it has
/// read and not handed out is to be in the cursor's blob. A second epoch, or a run that was killed, needs one
/// that can be opened again. So does going on after an error of the source or of a transform, and so does a
/// save after one, which opens it behind what was read or throws. A save, and the loader's end, wait for the
/// item that is being read; with `workers` = 0 none is but inside `next`, for a source that may be silent. By
/// default all sources of the same fields have the same fingerprint: override that where they are to be told
/// apart.
struct Dispatch {
  /// Of one shard, as transforms of it are. Needed on rank 0 alone; nobody looks at that of another rank.
  std::shared_ptr<const StreamSource> source = nullptr;
  std::int64_t shards = 256;  ///< L, fixed for a run; 1 to 2^24: a save takes 32 bytes of each
  /// Equal slices of a batch, or whole shards: under by_shard, shard s goes to rank s % R.
  Split rank_split = Split::by_sample;
};

/// What a stream loader is to do. All of it may change at a resume.
struct StreamLoaderOptions {
  /// B: at most so many samples per step over all ranks together, shared out as equally as can be; but each
  /// rank may take one, however many ranks there are. (Of what is dispatched, no more than B at any world.) 1
  /// to 2^31 - 1; memory for this rank's share of it is taken, even if fewer samples are left.
  std::int64_t global_batch_size = 32;
  std::int64_t epochs = 1;  ///< passes over the dataset, or kEndless
  /// Reading threads of this rank, up to 4,096; 0 = the caller's own, inside next(). A dispatched source has
  /// one at most.
  int workers = 1;
  std::int64_t read_ahead_batches = 4;  ///< at most this many batches in work or ready; 1 to 65,536
  /// No sample is read any more while so many bytes are read ahead, but for the next batch. Memory for
  /// samples stays under 5/2 of it and of five batches.
  std::int64_t read_ahead_bytes = std::int64_t{256} << 20;
  /// How long `next()` and `state()` wait for another rank. When it is over, they throw Error{timeout} that
  /// names the missing ranks. It must exceed the longest time between two steps of any rank, and the longest
  /// silence of a dispatched source; 0: wait for ever.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  Allocator allocator = {};

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// Where a run over streams is; the same on every rank.
struct StreamPosition {
  std::int64_t epoch = 0;  ///< passes over the dataset that are known to be complete
  std::int64_t step = 0;   ///< batches delivered since the run began
  friend bool operator==(const StreamPosition&, const StreamPosition&) = default;
};

/// What one rank has in one step. Move-only. Its memory goes back to the loader when it dies, and may outlive
/// the loader. *One thread.* Views, and an empty one, are as those of a Batch.
class StreamBatch {
 public:
  StreamBatch() noexcept;
  ~StreamBatch();
  StreamBatch(StreamBatch&& other) noexcept;
  StreamBatch& operator=(StreamBatch&& other) noexcept;

  /// Samples of this rank; 0 where its shards have no more of this epoch.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// The epoch of all of its samples, and the number of its step, from 0 on.
  [[nodiscard]] StreamPosition start() const;

  /// The sample in each slot: [size]. Shards take turns, so that what a worker reads is interleaved with what
  /// the others do.
  [[nodiscard]] std::span<const StreamId> ids() const& noexcept;
  /// The number of each slot's sample in its shard's stream of this epoch, from 0 on: [size].
  [[nodiscard]] std::span<const std::int64_t> positions() const& noexcept;

  [[nodiscard]] std::span<const Field> fields() const& noexcept;
  /// Field number `f`, or the field called `name`. Throws Error{out_of_range} unless 0 <= f <
  /// fields().size(), Error{not_found} for a name that is not there, naming those that are.
  [[nodiscard]] Tensor tensor(std::size_t f) const&;
  [[nodiscard]] Tensor tensor(std::string_view name) const&;
  /// Sample i's bytes of field f. Throws Error{out_of_range} for a field or sample that there is not.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f, std::int64_t i) const&;

  void ids() const&& = delete;
  void positions() const&& = delete;
  void fields() const&& = delete;
  void tensor(std::size_t f) const&& = delete;
  void tensor(std::string_view name) const&& = delete;
  void bytes(std::size_t f, std::int64_t i) const&& = delete;

 private:
  friend class internal::StreamBatchPool;
  StreamBatch(std::unique_ptr<internal::StreamBatchMemory> memory,
              std::shared_ptr<internal::StreamBatchPool> pool) noexcept;

  [[nodiscard]] const internal::StreamBatchMemory& memory() const;

  std::unique_ptr<internal::StreamBatchMemory> memory_;
  std::shared_ptr<internal::StreamBatchPool> pool_;
};

/// Feeds one rank from the shards that it owns, which take turns. Promised are exactly once per epoch, equal
/// steps on all ranks and resume at any world; not equal slices, nor the same batches in another world. (In
/// the same world a resumed run goes on with the very batches.) What was read ahead is not state. What is
/// dispatched comes in the same batches in every world, and what was read ahead of that is state.
///
/// Shards are shared out by what StreamSource::remaining says is in them, else by number. *One thread*, which
/// alone calls MPI. Worker threads read fixed shards each; batches do not depend on how many there are. One
/// that was moved from throws Error{invalid_argument} from every method, one in a forked child
/// Error{unsupported}.
class StreamLoader {
 public:
  /// For all ranks of `comm` together, which is duplicated: **collective**. Starts the workers. Throws on all
  /// ranks: Error{invalid_argument} from `options.validate()`, for no source or one without shards or cursor
  /// numbers, Error{mismatch} where ranks have different sources or epochs, Error{unsupported} for replicas
  /// (mpi::data_parallel), and what the source throws when asked what is in its shards.
  StreamLoader(const mpi::Communicator& comm, std::shared_ptr<const StreamSource> source,
               StreamLoaderOptions options = {});
  /// For this process alone. Throws besides Error{invalid_argument} where MPI runs more than one rank: each
  /// would read everything. Where that is wanted, pass a default-made Communicator.
  explicit StreamLoader(std::shared_ptr<const StreamSource> source, StreamLoaderOptions options = {});
  /// **Collective.** The same for a source that rank 0 alone reads. Throws besides Error{invalid_argument}
  /// for a source of more than one shard, and Error{mismatch} where ranks have different shards or splits.
  StreamLoader(const mpi::Communicator& comm, const Dispatch& dispatch, StreamLoaderOptions options = {});
  explicit StreamLoader(const Dispatch& dispatch, StreamLoaderOptions options = {});
  /// Waits for reads that are under way, and for no other rank. In the midst of a run some ranks may have
  /// begun to agree on a step that none will take: the communicator is then kept until MPI ends.
  ~StreamLoader();
  StreamLoader(StreamLoader&&) noexcept;
  StreamLoader& operator=(StreamLoader&&) noexcept;

  /// **Collective.** The next batch, empty on a rank that has nothing left of the epoch, or nothing after the
  /// last epoch: every rank gets the same number, and in each step some rank has a sample. An epoch ends when
  /// all shards are exhausted, and the next step is of the next one; one without any sample ends the run.
  /// Waits for this rank's samples and for the others to come. What a stream throws on one rank is thrown on
  /// all, as an Error that names rank, shard and place; the position stays, and calling again tries again.
  /// Throws Error{timeout} naming the ranks that missed the deadline; then the loader is of no use any more.
  NextBatch<StreamBatch> next();

  /// Where the run is: after the last batch handed over.
  [[nodiscard]] StreamPosition position() const;
  /// The rank that owns `shard` in this epoch. Throws Error{out_of_range} for a shard that there is not,
  /// Error{unsupported} where items are dispatched by sample, for then none does.
  [[nodiscard]] int owner(ShardId shard) const;

  [[nodiscard]] World world() const;
  [[nodiscard]] const StreamLoaderOptions& options() const;
  /// Of what is dispatched, one that is only to be asked what it is: its `open` throws Error{unsupported}.
  [[nodiscard]] const StreamSource& source() const;
  /// The source's fingerprint, which it is asked for once.
  [[nodiscard]] Fingerprint fingerprint() const;
  [[nodiscard]] LoaderStats stats() const;

 private:
  friend class internal::StreamState;
  class Impl;
  [[nodiscard]] Impl& impl() const;
  std::unique_ptr<Impl, internal::DeleteWhereMade> impl_;
};

/// Adds the loader's state, as "loader/<name>/...": a row and a blob for each shard, from its owner, and all
/// else as a blob; src/resume/STATE.md describes it. The ranks that save are to be in the order of the
/// loader's. Throws what StreamSource::remaining throws, and Error{invalid_argument} where the snapshot has a
/// loader of this name, whatever its kind.
///
/// Of a dispatch rank 0 adds all: a row for each shard, and each item that was read and not delivered.
/// Waits for the item that is being read; no more is read from then on until the next call of `next`, so that
/// nothing is lost of a pipe where the program ends here.
void save(const StreamLoader& loader, Snapshot& snapshot, std::string_view name = "main");

/// Puts the loader where the checkpoint's was, in any world. In one of the same size shards keep their
/// owners; in another they are shared out anew for this epoch by what remains in them. Where a cursor is long
/// (the blob of a shuffle buffer), it may be of some samples ago; these are read again, and passed over:
/// about as many bytes as the cursor has. What a dispatch had read and not delivered comes first. Not
/// collective, but all ranks call it at the same step. Throws
/// Error{mismatch}, with both values, for another dataset or a loader of another kind, Error{corrupt},
/// Error{unsupported} for a state of a newer version, and Error{not_found} where there is no such loader in
/// it. What is refused leaves the loader as it was, with all that it has read ahead.
void restore(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name = "main");

/// **Collective** over the loader's ranks. The loader's state as a text (JSON), the same on all of them, for
/// programs that keep it elsewhere: what `save` adds to a snapshot. Some 50 bytes a shard and 7 for each of
/// its cursor's numbers, more where numbers are large, and 4/3 of the bytes of all blobs; of a dispatch, some
/// 30 bytes a shard and a pending item and 4/3 of the items' bytes. Waits and throws as `save` does, on all
/// ranks; throws Error{timeout} as `next` does, and Error{out_of_range} where several ranks have 2 GiB or
/// more, which are for a checkpoint.
std::string state(const StreamLoader& loader);

/// Puts the loader where `state` says, in any world, as a checkpoint would. Not collective, but all ranks
/// call it at the same step with the same text. Throws as the one above, and Error{corrupt} for a text that
/// is no such state. What is refused leaves the loader as it was.
void restore(StreamLoader& loader, std::string_view state);

}  // namespace rota
