#pragma once

// rota/verify.hpp over any file system.

#include <filesystem>

#include "file_system.hpp"
#include "rota/verify.hpp"

namespace rota::checkpoint {

/// As `verify_checkpoint`.
[[nodiscard]] Verification verify(const FileSystem& system, const std::filesystem::path& path);

}  // namespace rota::checkpoint
