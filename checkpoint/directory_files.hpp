#pragma once

// What is in a directory of checkpoints: the names of files, and the lock that keeps other jobs from writing.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commit_page.hpp"
#include "files/file.hpp"

namespace rota::checkpoint {

/// The highest serial that 12 digits hold.
inline constexpr std::int64_t kMaxSerial = 999'999'999'999;

/// "checkpoint-000000000042.h5"
[[nodiscard]] std::string checkpoint_name(std::int64_t serial);
/// ".checkpoint-000000000042.<job id>.tmp"
[[nodiscard]] std::string temporary_name(std::int64_t serial, std::string_view job_id);

/// The serial in the name of a checkpoint; nothing for any other name.
[[nodiscard]] std::optional<std::int64_t> serial_of(std::string_view name);
/// The serials of all that bear such names in `directory`, newest first. Throws Error{io}.
[[nodiscard]] std::vector<std::int64_t> list_serials(const internal::FileSystem& system,
                                                     const std::filesystem::path& directory);
/// Whether it is the name of a save under way.
[[nodiscard]] bool is_temporary(std::string_view name);
/// The pages of all checkpoints whose page verifies, oldest first. Throws Error{io}.
[[nodiscard]] std::vector<CommitPage> list_pages(const internal::FileSystem& system,
                                                 const std::filesystem::path& directory);

/// Deletes what saves that died have left in `directory`: what nobody has locked, and what bears `job_id`,
/// which has no save under way. What is no regular file was made by no save, and stays. Throws Error{io}
/// where the directory cannot be listed.
void sweep_temporaries(const internal::FileSystem& system, const std::filesystem::path& directory,
                       std::string_view job_id);

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
