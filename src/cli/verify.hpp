#pragma once

// Whether checkpoints are good, as text.

#include <cstdio>
#include <filesystem>

namespace rota::cli {

/// Verifies a checkpoint, or every checkpoint of a directory, newest first, and prints to `out` what is good
/// and all that is damaged. Takes no lock on the directory, which a job may be using. Returns whether all is
/// good, and there is something at all. Throws what `verify_checkpoint` throws for a file.
bool verify(const std::filesystem::path& file_or_directory, std::FILE* out);

}  // namespace rota::cli
