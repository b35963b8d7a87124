#pragma once

// Making the directory that checkpoints go into, so that it is still there after a power loss.

#include <filesystem>

#include "file_system.hpp"

namespace rota::checkpoint {

/// Makes `path` and what leads to it, as far as it is not there. When it returns, `path` is on disk, whoever
/// made it. Throws Error{io}, Error{not_found}.
void make_directory(const FileSystem& system, const std::filesystem::path& path);

}  // namespace rota::checkpoint
