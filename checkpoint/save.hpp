#pragma once

// The protocol of a save: see README.md, and FORMAT.md for what it leaves in the file.

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

/// **Collective.** Writes `snapshot` as the next checkpoint of the directory, in the phases that README.md
/// lists, and returns what its page says; then it is on disk. Throws the same Error on all ranks, and leaves
/// nothing of it, where any of it fails, or where any rank comes with an `error`.
[[nodiscard]] CommitPage save(const SaveTarget& target, const SnapshotData& snapshot,
                              const std::exception_ptr& error);

}  // namespace rota::checkpoint
