#pragma once

// The directory of a job's checkpoints, which no other job may write to meanwhile.

#include <filesystem>

#include "commit_page.hpp"
#include "files/file.hpp"

namespace rota::checkpoint {

struct LockedDirectory {
  internal::File file = {};  ///< open, and has the lock
  bool is_locked = false;    ///< some file systems have no locks
  RunId job_id{};            ///< of this job, drawn at random
};

/// Makes the directory, on disk when this returns, and locks it. Throws Error{busy} where another job has the
/// lock, Error{io}.
[[nodiscard]] LockedDirectory open_directory(const internal::FileSystem& system,
                                             const std::filesystem::path& path);

[[nodiscard]] RunId random_id();

}  // namespace rota::checkpoint
