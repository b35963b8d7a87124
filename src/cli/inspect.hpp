#pragma once

// What a checkpoint file holds, as text.

#include <filesystem>
#include <string>

namespace rota::cli {

/// Opens and verifies checkpoint `file`, alone, and lists what it says of itself, its tensors, its blobs, and
/// where each loader in it stands. Throws what `open_checkpoint` throws.
std::string inspect(const std::filesystem::path& file);

}  // namespace rota::cli
