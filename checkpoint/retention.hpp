#pragma once

// Which checkpoints a directory drops, and how.

#include <cstdint>
#include <filesystem>
#include <span>
#include <thread>
#include <utility>
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

/// Removes checkpoints, and frees the bytes of large ones on a thread. *One thread* at a time.
class OldCheckpoints {
 public:
  OldCheckpoints(const FileSystem& system, std::filesystem::path directory)
      : system_(&system), directory_(std::move(directory)) {}

  /// Removes those of `serials_newest_first` that `policy` does not keep. `rejected` are known to be
  /// damaged; `verified` as for to_drop. What cannot be dropped now is dropped by the next call; files of a
  /// newer format never are.
  void drop(std::span<const std::int64_t> serials_newest_first, const CheckpointPolicy& policy,
            std::int64_t verified, std::span<const RejectedCheckpoint> rejected);
  /// Waits until all bytes are free.
  void wait() {
    if (freeing_.joinable()) freeing_.join();
  }

 private:
  [[nodiscard]] File remove(const std::filesystem::path& path) const;

  const FileSystem* system_;
  std::filesystem::path directory_;
  std::jthread freeing_;
};

}  // namespace rota::checkpoint
