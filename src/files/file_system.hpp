#pragma once

// All calls that write files, or read what a checkpoint holds, so that a test can make each of them fail.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rota::internal {

/// The system calls themselves, with their own conventions: -1 and errno on failure, unless said otherwise.
/// *Any thread.*
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Never waits for the other end of a FIFO, nor takes a terminal; sets O_CLOEXEC.
  virtual int open(const char* path, int flags, mode_t mode) const;
  virtual int close(int fd) const;
  virtual ssize_t pread(int fd, void* out, std::size_t bytes, off_t at) const;
  virtual ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) const;
  virtual int fsync(int fd) const;
  /// Returns the error number, 0 for none.
  virtual int fallocate(int fd, off_t bytes) const;
  virtual int flock(int fd, int operation) const;
  virtual std::int64_t size(int fd) const;
  /// S_IFREG and its like, of what is open, and of what `path` leads to; 0 and errno on failure.
  virtual mode_t type(int fd) const;
  virtual mode_t type_of(const char* path) const;
  virtual bool is_link(const char* path) const;
  virtual int rename(const char* from, const char* to) const;
  virtual int unlink(const char* path) const;
  virtual int access(const char* path, int mode) const;
  /// Whether files in `directory` are of NFS, and of several clients, who may write a page of which they
  /// changed a part.
  virtual bool writes_whole_pages(const char* directory, bool are_several) const;
  /// Makes `path` and what leads to it; there already is no failure.
  virtual int make_directories(const std::filesystem::path& path) const;
  /// The names in `directory`, in any order.
  virtual int list(const std::filesystem::path& directory, std::vector<std::string>& names) const;
};

/// The file system of this machine.
[[nodiscard]] const FileSystem& posix_file_system() noexcept;

}  // namespace rota::internal
