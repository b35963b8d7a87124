#pragma once

// Which checkpoints a directory drops, and how.

#include <cstdint>
#include <filesystem>
#include <span>
#include <thread>
#include <vector>

#include "file_system.hpp"
#include "rota/checkpoint_directory.hpp"

namespace rota::checkpoint {

/// A checkpoint that is there. One that is known to be damaged is not counted among those kept.
struct Present {
  std::int64_t serial = 0;
  bool is_good = true;
};

/// The serials that `policy` does not keep of `newest_first`. `verified`, the last that was read and verified
/// as a whole (-1: none was), is always kept, as is everything newer than the last one that counts.
[[nodiscard]] std::vector<std::int64_t> to_drop(std::span<const Present> newest_first,
                                                const CheckpointPolicy& policy, std::int64_t verified);

/// Removes those of `serials_newest_first` in `directory` that `policy` does not keep. `rejected` are known
/// to be damaged; `verified` as for to_drop. What cannot be dropped now is dropped by the next call; files of
/// a newer format never are. The bytes of large files are freed by the thread that it returns, if any.
[[nodiscard]] std::jthread drop_old(const FileSystem& system, const std::filesystem::path& directory,
                                    std::span<const std::int64_t> serials_newest_first,
                                    const CheckpointPolicy& policy, std::int64_t verified,
                                    std::span<const RejectedCheckpoint> rejected);

}  // namespace rota::checkpoint
