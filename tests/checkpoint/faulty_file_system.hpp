#pragma once

// A file system whose calls fail when a test says so.

#include "file_system.hpp"
#include "test.hpp"

namespace rota::test {

/// Fails the `at`-th call of `kind` (from 0), once. A failing close closes nevertheless. ENOMEM is thrown as
/// std::bad_alloc.
class FaultyFileSystem : public rota::checkpoint::FileSystem {
 public:
  void fail(const std::string& kind, int at, int error) {
    kind_ = kind;
    at_ = at;
    error_ = error;
    calls_.clear();
  }
  /// Writes of less than what was asked for, from now on.
  void write_short() { writes_short_ = true; }
  [[nodiscard]] int calls(const std::string& kind) const {
    const auto found = calls_.find(kind);
    return found == calls_.end() ? 0 : found->second;
  }
  [[nodiscard]] bool has_failed() const { return at_ < 0; }

  int open(const char* path, int flags, mode_t mode) const override {
    return fails("open") ? -1 : FileSystem::open(path, flags, mode);
  }
  int close(int fd) const override {
    const int result = FileSystem::close(fd);
    return fails("close") ? -1 : result;
  }
  ssize_t pread(int fd, void* out, std::size_t bytes, off_t at) const override {
    return fails("pread") ? -1 : FileSystem::pread(fd, out, bytes, at);
  }
  ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) const override {
    if (fails("pwrite")) return -1;
    return FileSystem::pwrite(fd, data, writes_short_ && bytes > 1 ? bytes / 2 : bytes, at);
  }
  int fsync(int fd) const override { return fails("fsync") ? -1 : FileSystem::fsync(fd); }
  int fallocate(int fd, off_t bytes) const override {
    return fails("fallocate") ? error_ : FileSystem::fallocate(fd, bytes);
  }
  int flock(int fd, int operation) const override {
    return fails("flock") ? -1 : FileSystem::flock(fd, operation);
  }
  std::int64_t size(int fd) const override { return fails("size") ? -1 : FileSystem::size(fd); }
  mode_t type(int fd) const override { return fails("type") ? 0 : FileSystem::type(fd); }
  int rename(const char* from, const char* to) const override {
    return fails("rename") ? -1 : FileSystem::rename(from, to);
  }
  int unlink(const char* path) const override { return fails("unlink") ? -1 : FileSystem::unlink(path); }
  int access(const char* path, int mode) const override {
    return fails("access") ? -1 : FileSystem::access(path, mode);
  }
  int make_directories(const std::filesystem::path& path) const override {
    return fails("make_directories") ? -1 : FileSystem::make_directories(path);
  }
  int list(const std::filesystem::path& path, std::vector<std::string>& names) const override {
    return fails("list") ? -1 : FileSystem::list(path, names);
  }

 private:
  bool fails(const std::string& kind) const {
    const int call = calls_[kind]++;
    if (kind != kind_ || call != at_) return false;
    at_ = -1;
    if (error_ == ENOMEM) throw std::bad_alloc();
    errno = error_;
    return true;
  }

  std::string kind_;
  mutable int at_ = -1;
  int error_ = 0;
  bool writes_short_ = false;
  mutable std::map<std::string, int> calls_;
};

}  // namespace rota::test
