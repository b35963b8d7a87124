#pragma once

// Which checkpoints a directory drops, and how.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "commit_page.hpp"
#include "file_system.hpp"
#include "rota/checkpoint_directory.hpp"

namespace rota::checkpoint {

/// What a job may drop: the checkpoints that it wrote, and those of a run up to the one that it restored.
/// Others may be all that is left of a run that it should have gone on with.
struct Lineage {
  std::map<RunId, std::int64_t> restored;  ///< the last serial that was, of each run
  std::set<std::int64_t> saved;
};

/// A checkpoint of the lineage that is there. A damaged one is not counted among those kept.
struct Present {
  std::int64_t serial = 0;
  std::int64_t step = 0;
  bool is_good = true;
};

/// The serials that `policy` does not keep of `newest_first`. `verified`, the last that was read and verified
/// as a whole (-1: none was), is always kept, as is everything newer than the last one that counts.
[[nodiscard]] std::vector<std::int64_t> to_drop(std::span<const Present> newest_first,
                                                const CheckpointPolicy& policy, std::int64_t verified);

/// The run that the checkpoint `file` is of; nothing where that cannot be read.
[[nodiscard]] std::optional<RunId> run_of(const FileSystem& system, const std::filesystem::path& file);

/// What was done to a directory.
struct Dropped {
  std::vector<std::int64_t> others;  ///< that are there and not of the lineage, newest first
  std::jthread freeing;              ///< of the bytes of large files, if any
};

/// Removes those of `serials_newest_first` in `directory` that are of the lineage, and that `policy` does not
/// keep. `rejected` are known to be damaged; `verified` as for to_drop. What cannot be dropped now is dropped
/// by the next call; files of a newer format never are.
[[nodiscard]] Dropped drop_old(const FileSystem& system, const std::filesystem::path& directory,
                               std::span<const std::int64_t> serials_newest_first,
                               const CheckpointPolicy& policy, const Lineage& lineage, std::int64_t verified,
                               std::span<const RejectedCheckpoint> rejected);

}  // namespace rota::checkpoint
