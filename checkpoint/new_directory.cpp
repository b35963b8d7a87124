#include "new_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

std::filesystem::path whole_path(const std::filesystem::path& path) {
  std::error_code error;
  auto whole = std::filesystem::absolute(path, error);
  if (error) fail_io(fmt::format("find out where checkpoint directory {} is", path.string()), error.value());
  return whole;
}

void sync_directory(const FileSystem& system, const std::filesystem::path& path) {
  File(system, path.string(), O_RDONLY | O_DIRECTORY).sync();
}

// Who made `path` may have died before it was on disk, or not have cared. A parent that is not ours to open
// was not made by us.
void sync_parent(const FileSystem& system, const std::filesystem::path& path) {
  const auto whole = whole_path(path);
  const auto above = whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
  try {
    sync_directory(system, above);
  } catch (const Error&) {
    if (system.access(above.c_str(), W_OK) == 0) throw;
  }
}

}  // namespace

void make_directory(const FileSystem& system, const std::filesystem::path& path) {
  if (path.empty()) {
    throw Error(ErrorCode::invalid_argument, "make a checkpoint directory: its path is empty; name one");
  }
  std::vector<std::filesystem::path>
      parents;  // of each level that is made; a new name is not on disk before they are
  for (auto level = whole_path(path);
       level.has_relative_path() && system.access(level.c_str(), F_OK) != 0 && errno == ENOENT;
       level = level.parent_path()) {
    if (level.has_filename()) parents.push_back(level.parent_path());
  }
  if (system.make_directories(path) != 0) {
    const int error = errno;
    if (const auto what = what_is(system, path.string()); !what.empty() && what != "a directory") {
      throw Error(ErrorCode::io, fmt::format("make checkpoint directory {}: it is {}; name another directory",
                                             path.string(), what));
    }
    fail_io(fmt::format("make checkpoint directory {}", path.string()), error);
  }
  for (const auto& above : parents) sync_directory(system, above);
  if (parents.empty()) sync_parent(system, path);
}

}  // namespace rota::checkpoint
