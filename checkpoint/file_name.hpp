#pragma once

// How checkpoints and saves under way are called in their directory.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/file_system.hpp"

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
[[nodiscard]] bool is_temporary(std::string_view name);

/// Deletes what saves that died have left in `directory`: what nobody has locked, and what bears `job_id`,
/// which has no save under way. What is no regular file was made by no save, and stays. Throws Error{io}
/// where the directory cannot be listed.
void sweep_temporaries(const internal::FileSystem& system, const std::filesystem::path& directory,
                       std::string_view job_id);

}  // namespace rota::checkpoint
