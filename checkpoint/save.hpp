#pragma once

// The protocol of a save. See FORMAT.md for what it leaves in the file.

#include <cstdint>
#include <exception>
#include <filesystem>

#include "commit_page.hpp"
#include "files/file.hpp"
#include "ranks/nodes.hpp"
#include "snapshot_data.hpp"

namespace rota::checkpoint {

/// Where and as what to save.
struct SaveTarget {
  const internal::FileSystem& system;
  const ranks::Nodes& nodes;
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

}  // namespace rota::checkpoint
