#include "files/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

// The largest transfer that Linux makes in one call.
constexpr std::size_t kMaxTransfer = 0x7ffff000;

std::string_view advice(int error, bool just_reads) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space, or write elsewhere";
    case EACCES:
    case EPERM:
    case EROFS:
      return just_reads ? "; give this user the right to read it"
                        : "; the directory and its files must be writable for this job";
    case ENOENT:
    case ENOTDIR:
      return "; check the path: it must be there, and seen by all ranks";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files";
    default:
      return "";
  }
}

std::string_view name_of(mode_t type) {
  switch (type) {
    case S_IFREG:
      return "a file";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "of an unknown type";
  }
}

[[noreturn]] void fail_irregular(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::corrupt,
              fmt::format("open {}: it is {}, and a checkpoint is a regular file; move it away", path, what));
}

}  // namespace

void fail_io(std::string_view what, int error, bool just_reads) {
  throw Error(
      error == ENOENT ? ErrorCode::not_found : ErrorCode::io,
      fmt::format("{}: {}{}", what, std::generic_category().message(error), advice(error, just_reads)));
}

std::string_view what_is(const FileSystem& system, const std::string& path) {
  if (const mode_t type = system.type_of(path.c_str())) return name_of(type);
  const int error = errno;
  if (!system.is_link(path.c_str())) return "";
  if (error == ELOOP) return "a loop of links";
  return error == ENOENT || error == ENOTDIR ? "a link to nothing" : "";
}

File::File(const FileSystem& system, std::string path, int flags, mode_t mode)
    : File(system, std::move(path)) {
  do {
    fd_ = system_->open(path_.c_str(), flags, mode);
  } while (fd_ < 0 && errno == EINTR);
  const int error = errno;
  const bool opens_file = (flags & (O_CREAT | O_DIRECTORY)) == 0;
  if (fd_ >= 0) {
    if (opens_file) require_regular();
    return;
  }
  if (const auto what = opens_file ? what_is(system, path_) : ""; !what.empty() && what != name_of(S_IFREG)) {
    fail_irregular(path_, what);
  }
  fail_io(fmt::format("{} {}", (flags & O_CREAT) != 0 ? "create" : "open", path_), error,
          opens_file && (flags & O_ACCMODE) == O_RDONLY);
}

void File::require_regular() const {
  const mode_t type = system_->type(fd_);
  if (type == 0) fail_io(fmt::format("ask what {} is", path_), errno);
  if (type != S_IFREG) fail_irregular(path_, name_of(type));
}

File::~File() {
  if (fd_ < 0) return;
  if (is_locked_) system_->flock(fd_, LOCK_UN);
  system_->close(fd_);
}

File::File(File&& other) noexcept
    : system_(other.system_),
      path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      is_locked_(std::exchange(other.is_locked_, false)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(system_, other.system_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(is_locked_, other.is_locked_);
  return *this;
}

void File::read(std::uint64_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count =
        system_->pread(fd_, out.data(), std::min(out.size(), kMaxTransfer), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io(fmt::format("read {} bytes at {} of {}", out.size(), at, path_), errno);
    if (count == 0) {
      throw Error(ErrorCode::corrupt, fmt::format("read {} bytes at {} of {}: the file ends before byte {}",
                                                  out.size(), at, path_, at + out.size()));
    }
    out = out.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

void File::write(std::uint64_t at, std::span<const std::byte> data) const {
  while (!data.empty()) {
    const ssize_t count =
        system_->pwrite(fd_, data.data(), std::min(data.size(), kMaxTransfer), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      fail_io(fmt::format("write {} bytes at {} of {}", data.size(), at, path_), count < 0 ? errno : EIO);
    }
    data = data.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

void File::allocate(std::uint64_t bytes) const {
  int error = EINTR;
  while (error == EINTR) error = system_->fallocate(fd_, static_cast<off_t>(bytes));
  if (error != 0) fail_io(fmt::format("allocate {} bytes for {}", bytes, path_), error);
}

void File::sync() const {
  // Not repeated after a failure: the kernel may have dropped what it could not write, and then succeed.
  if (system_->fsync(fd_) != 0) fail_io(fmt::format("fsync {}", path_), errno);
}

void File::close() {
  if (system_->close(std::exchange(fd_, -1)) != 0) fail_io(fmt::format("close {}", path_), errno);
}

std::uint64_t File::size() const {
  const std::int64_t bytes = system_->size(fd_);
  if (bytes < 0) fail_io(fmt::format("ask for the size of {}", path_), errno);
  return static_cast<std::uint64_t>(bytes);
}

Lock File::try_lock() {
  while (system_->flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? Lock::taken_elsewhere : Lock::not_supported;
  }
  is_locked_ = true;
  return Lock::taken;
}

std::vector<std::string> list_names(const FileSystem& system, const std::filesystem::path& directory) {
  std::vector<std::string> names;
  if (system.list(directory, names) != 0) {
    fail_io(fmt::format("list {}", directory.string()), errno, true);
  }
  return names;
}

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
      throw Error(ErrorCode::io,
                  fmt::format("make directory {}: it is {}; name another directory", path.string(), what));
    }
    fail_io(fmt::format("make directory {}", path.string()), error);
  }
  for (const auto& above : parents) sync_directory(system, above);
  if (parents.empty()) sync_parent(system, path);
}

}  // namespace rota::internal
