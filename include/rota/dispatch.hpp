#pragma once

// A source that there is only once: a pipe, a socket, the cursor of a database. One rank reads it and hands
// its items out to all. Next: stream_loader.hpp.

#include <cstdint>
#include <memory>

#include "rota/stream.hpp"
#include "rota/types.hpp"

namespace rota {

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

}  // namespace rota
