#include "files/file.hpp"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <system_error>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "files/descriptor.hpp"

namespace rota::internal {

namespace {

int failed(const std::error_code& error) {
  if (!error) return 0;
  errno = error.value();
  return -1;
}

std::string_view name_of(mode_t type) {
  constexpr std::pair<mode_t, std::string_view> kNames[] = {{S_IFREG, "a file"},   {S_IFDIR, "a directory"},
                                                            {S_IFIFO, "a FIFO"},   {S_IFSOCK, "a socket"},
                                                            {S_IFCHR, "a device"}, {S_IFBLK, "a device"}};
  const auto* const found = std::ranges::find(kNames, type, &std::pair<mode_t, std::string_view>::first);
  return found == std::end(kNames) ? "of an unknown type" : found->second;
}

[[noreturn]] void fail_irregular(const std::string& path, std::string_view what) {
  throw failure(ErrorCode::corrupt, "open {}: it is {}, and no regular file; move it away, or name another",
                path, what);
}

void sync_directory(const FileSystem& system, const std::filesystem::path& path) {
  File(system, path.string(), O_RDONLY | O_DIRECTORY).sync();
}

// Who made `path` may have died before it was on disk, or not have cared. A parent that is not ours to open
// was not made by us.
void sync_parent(const FileSystem& system, const std::filesystem::path& path) {
  const std::filesystem::path whole = absolute_path(path.native());
  const auto above = whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
  try {
    sync_directory(system, above);
  } catch (const Error&) {
    if (system.access(above.c_str(), W_OK) == 0) throw;
  }
}

}  // namespace

int FileSystem::open(const char* path, int flags, mode_t mode) const {
  const int fd = ::open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  if (fd >= 0) ::fcntl(fd, F_SETFL, flags);  // what is read later may be waited for
  return fd;
}
int FileSystem::close(int fd) const { return ::close(fd); }
ssize_t FileSystem::pread(int fd, void* out, std::size_t bytes, off_t at) const {
  return ::pread(fd, out, bytes, at);
}
ssize_t FileSystem::pwrite(int fd, const void* data, std::size_t bytes, off_t at) const {
  return ::pwrite(fd, data, bytes, at);
}
int FileSystem::fsync(int fd) const { return ::fsync(fd); }
int FileSystem::fallocate(int fd, off_t bytes) const { return ::posix_fallocate(fd, 0, bytes); }
int FileSystem::flock(int fd, int operation) const { return ::flock(fd, operation); }
std::int64_t FileSystem::size(int fd) const { return size_of_open(fd); }
mode_t FileSystem::type(int fd) const {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_mode & S_IFMT : 0;
}
mode_t FileSystem::type_of(const char* path) const {
  struct stat status {};
  return ::stat(path, &status) == 0 ? status.st_mode & S_IFMT : 0;
}
bool FileSystem::is_link(const char* path) const {
  struct stat status {};
  return ::lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}
bool FileSystem::writes_whole_pages(const char* directory, bool are_several) const {
  struct statfs status {};
  return are_several && ::statfs(directory, &status) == 0 && status.f_type == NFS_SUPER_MAGIC;
}
int FileSystem::rename(const char* from, const char* to) const { return std::rename(from, to); }
int FileSystem::unlink(const char* path) const { return ::unlink(path); }
int FileSystem::access(const char* path, int mode) const { return ::access(path, mode); }

int FileSystem::make_directories(const std::filesystem::path& path) const {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return failed(error);
}

int FileSystem::list(const std::filesystem::path& directory, std::vector<std::string>& names) const {
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return failed(error);
}

const FileSystem& posix_file_system() noexcept {
  static const FileSystem system;
  return system;
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
  const bool just_reads = opens_file && (flags & O_ACCMODE) == O_RDONLY;
  throw just_reads ? system_error("open", path_, error)
                   : write_error((flags & O_CREAT) != 0 ? "create" : "open", path_, error);
}

void File::require_regular() const {
  const mode_t type = system_->type(fd_);
  if (type == 0) throw system_error("ask for the type of", path_, errno);
  if (type != S_IFREG) fail_irregular(path_, name_of(type));
}

File::~File() {
  if (fd_ < 0) return;
  if (is_locked_) system_->flock(fd_, LOCK_UN);
  system_->close(fd_);
}

File& File::operator=(File&& other) noexcept {
  std::swap(system_, other.system_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(is_locked_, other.is_locked_);
  return *this;
}

void File::read(std::uint64_t at, std::span<std::byte> out) const {
  const std::int64_t got = move_all(out.size(), [&](std::size_t done, std::size_t most) {
    return system_->pread(fd_, out.data() + done, most, static_cast<off_t>(at + done));
  });
  const auto what = [&] { return fmt::format("read {} bytes at {} of", out.size(), at); };
  if (got < 0) throw system_error(what(), path_, errno);
  if (static_cast<std::size_t>(got) == out.size()) return;
  throw failure(ErrorCode::corrupt, "{} {}: the file ends before byte {}", what(), path_, at + out.size());
}

void File::write(std::uint64_t at, std::span<const std::byte> data) const {
  const std::int64_t put = move_all(data.size(), [&](std::size_t done, std::size_t most) {
    return system_->pwrite(fd_, data.data() + done, most, static_cast<off_t>(at + done));
  });
  if (std::cmp_equal(put, data.size())) return;
  throw write_error(fmt::format("write {} bytes at {} of", data.size(), at), path_, put < 0 ? errno : EIO);
}

void File::allocate(std::uint64_t bytes) const {
  int error = EINTR;
  while (error == EINTR) error = system_->fallocate(fd_, static_cast<off_t>(bytes));
  if (error != 0) throw write_error(fmt::format("allocate {} bytes for", bytes), path_, error);
}

void File::sync() const {
  // Not repeated after a failure: the kernel may have dropped what it could not write, and then succeed.
  if (system_->fsync(fd_) == 0) return;
  const int error = errno;
  if (error != EINVAL || system_->type(fd_) != S_IFDIR) throw write_error("fsync", path_, error);
  // SMB, DrvFs and many of FUSE know none of directories. The file itself is on disk.
  static std::atomic_flag is_told;
  if (!is_told.test_and_set()) {
    tell(fmt::format(
        "{} is on a file system that knows no fsync of a directory: after a power loss a file that was "
        "just written may lack its name, and the one before is used",
        path_));
  }
}

void File::close() {
  if (system_->close(std::exchange(fd_, -1)) != 0) throw write_error("close", path_, errno);
}

std::uint64_t File::size() const {
  const std::int64_t bytes = system_->size(fd_);
  if (bytes < 0) throw system_error("ask for the size of", path_, errno);
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
  if (system.list(directory, names) != 0) throw system_error("list", directory.native(), errno);
  return names;
}

void make_directory(const FileSystem& system, const std::filesystem::path& path) {
  if (path.empty()) {
    throw Error(ErrorCode::invalid_argument, "make a directory: its path is empty; name one");
  }
  std::vector<std::filesystem::path>
      parents;  // of each level that is made; a new name is not on disk before they are
  for (std::filesystem::path level = absolute_path(path.native());
       level.has_relative_path() && system.access(level.c_str(), F_OK) != 0 && errno == ENOENT;
       level = level.parent_path()) {
    if (level.has_filename()) parents.push_back(level.parent_path());
  }
  if (system.make_directories(path) != 0) {
    const int error = errno;
    if (const auto what = what_is(system, path.string()); !what.empty() && what != "a directory") {
      throw failure(ErrorCode::io, "make directory {}: it is {}; name another place", path.native(), what);
    }
    throw write_error("make directory", path.native(), error);
  }
  for (const auto& above : parents) sync_directory(system, above);
  if (parents.empty()) sync_parent(system, path);
}

bool is_dead(const FileSystem& system, const std::string& path) {
  try {
    return File(system, path, O_RDWR).try_lock() == Lock::taken;
  } catch (const Error&) {
    return false;  // gone already, or not ours to open
  }
}

Temporary::Temporary(const FileSystem& system, const std::filesystem::path& path)
    : system_(&system), file_(system, path.string(), O_RDWR | O_CREAT | O_EXCL), name_(path.string()) {
  static_cast<void>(file_.try_lock());
}

Temporary::~Temporary() {
  if (!name_.empty()) system_->unlink(name_.c_str());
}

void Temporary::rename_to(const std::filesystem::path& name) {
  file_.sync();
  file_.close();
  if (system_->rename(name_.c_str(), name.c_str()) != 0) {
    throw write_error("rename", fmt::format("{} to {}", name_, name.native()), errno);
  }
}

void Temporary::publish(const std::filesystem::path& name, const File& directory) {
  rename_to(name);
  name_ = name.string();
  directory.sync();
  name_.clear();
}

void Temporary::replace(const std::filesystem::path& name, const File& directory) {
  rename_to(name);
  name_.clear();
  directory.sync();
}

}  // namespace rota::internal
