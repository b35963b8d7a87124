#include "new_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

void sync_directory(const FileSystem& system, const std::filesystem::path& path) {
  File(system, path.string(), O_RDONLY | O_DIRECTORY).sync();
}

// Who made `path` may have died before it was on disk, or not have cared. A parent that is not ours to open
// was not made by us.
void sync_parent(const FileSystem& system, const std::filesystem::path& path) {
  const auto whole = std::filesystem::absolute(path);
  const auto above = whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
  try {
    sync_directory(system, above);
  } catch (const Error&) {
    if (system.access(above.c_str(), W_OK) == 0) throw;
  }
}

}  // namespace

void make_directory(const FileSystem& system, const std::filesystem::path& path) {
  std::vector<std::filesystem::path>
      parents;  // of each level that is made; a new name is not on disk before they are
  for (auto level = std::filesystem::absolute(path);
       level.has_relative_path() && system.access(level.c_str(), F_OK) != 0 && errno == ENOENT;
       level = level.parent_path()) {
    if (level.has_filename()) parents.push_back(level.parent_path());
  }
  if (system.make_directories(path) != 0) {
    fail_io(fmt::format("make checkpoint directory {}", path.string()), errno);
  }
  for (const auto& above : parents) sync_directory(system, above);
  if (parents.empty()) sync_parent(system, path);
}

}  // namespace rota::checkpoint
