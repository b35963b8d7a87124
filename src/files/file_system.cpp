#include "files/file_system.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace rota::internal {
namespace {

int failed(const std::error_code& error) {
  if (!error) return 0;
  errno = error.value();
  return -1;
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
std::int64_t FileSystem::size(int fd) const {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_size : -1;
}
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

}  // namespace rota::internal
