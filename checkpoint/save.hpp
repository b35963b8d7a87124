#pragma once

// The protocol of a save. See FORMAT.md for what it leaves in the file.

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <thread>

#include "collectives.hpp"
#include "commit_page.hpp"
#include "files/file.hpp"
#include "mpi/caller_thread.hpp"
#include "rota/checkpoint_directory.hpp"
#include "snapshot_data.hpp"

namespace rota::checkpoint {

/// Where and as what to save.
struct SaveTarget {
  const internal::FileSystem& system;
  Collectives& ranks;
  const std::filesystem::path& directory;
  const internal::File& directory_file;  ///< open on rank 0
  const RunId& job_id;                   ///< in the names of temporaries
  const RunId& run_id;
  std::int64_t parent = -1;
  std::int64_t above = -1;  ///< the serial is to be higher than this
  std::int64_t step = 0;
};

/// **Collective.** Writes `snapshot` as the next checkpoint of the directory and returns what its page says;
/// then it is on disk. Throws the same Error on all ranks, and leaves nothing of it, where any of it fails,
/// or where any rank comes with an `error`.
///
/// 0. Everything of a rank's own that can fail: compression, memory. Agreed.
/// 1. All ranks add the same tensors; their row counts are exchanged, and rows that are not contiguous per
///    rank are moved to where they are. Row digests are summed, and rank blobs collected by rank 0.
/// 2. Rank 0 makes the skeleton in memory, sweeps dead temporaries, creates one of its own and allots all of
///    it, so that a full disk shows here. Agreed; offsets are broadcast.
/// 3. Every rank hashes its slabs from memory and writes them; over NFS, rank 0 writes for all. Agreed. One
///    rank of each node other than rank 0's calls fsync. Agreed.
/// 4. Rank 0 checks that the extents cover every byte once, writes table and commit page, calls fsync,
///    closes, renames, and calls fsync on the directory. Agreed.
[[nodiscard]] CommitPage save(const SaveTarget& target, const SnapshotData& snapshot,
                              const std::exception_ptr& error);

/// Runs a save while the caller's thread goes on; only that one calls MPI, when it comes by. All but the
/// constructor's `save` is for the caller's thread.
class Background {
 public:
  /// Starts `save`, whose operations of `ranks` go through the caller's thread until this dies. Where
  /// there can be no thread, `finish` runs it.
  Background(Collectives& ranks, std::function<CommitPage()> save);
  /// Gives up what is not finished: the save fails at its next operation.
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
