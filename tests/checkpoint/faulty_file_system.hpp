#pragma once

// A file system whose calls fail when a test says so.

#include "directory_access.hpp"
#include "test.hpp"

namespace rota::test {

/// Fails the `at`-th call of `kind` (from 0), once. A failing close closes nevertheless. ENOMEM is thrown as
/// std::bad_alloc.
class FaultyFileSystem : public internal::FileSystem {
 public:
  void fail(const std::string& kind, int at, int error) {
    kind_ = kind;
    at_ = at;
    error_ = error;
    calls_.clear();
  }
  /// Called before each call, with its name, and in place of what `fail` says: an error number that is not 0
  /// fails it. An open that makes a file is `create` here, and a write at the head of one `page`.
  std::function<int(std::string_view kind)> on_call;
  /// Writes of less than what was asked for, from now on.
  void write_short() { writes_short_ = true; }
  int calls(const std::string& kind) const {
    const auto found = calls_.find(kind);
    return found == calls_.end() ? 0 : found->second;
  }
  bool has_failed() const { return at_ < 0; }

  int open(const char* path, int flags, mode_t mode) const override {
    return fails("open", (flags & O_CREAT) != 0 ? "create" : "open") ? -1
                                                                     : FileSystem::open(path, flags, mode);
  }
  int close(int fd) const override {
    const int result = FileSystem::close(fd);
    return fails("close") ? -1 : result;
  }
  ssize_t pread(int fd, void* out, std::size_t bytes, off_t at) const override {
    return fails("pread") ? -1 : FileSystem::pread(fd, out, bytes, at);
  }
  ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) const override {
    if (fails("pwrite", at == 0 ? "page" : "pwrite")) return -1;
    return FileSystem::pwrite(fd, data, writes_short_ && bytes > 1 ? bytes / 2 : bytes, at);
  }
  int fsync(int fd) const override { return fails("fsync") ? -1 : FileSystem::fsync(fd); }
  int fallocate(int fd, off_t bytes) const override {
    return fails("fallocate") ? errno : FileSystem::fallocate(fd, bytes);
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
  /// Each rank writes for itself, wherever a test runs.
  bool writes_whole_pages(const char* /*directory*/, bool /*are_several*/) const override { return false; }
  int make_directories(const fs::path& path) const override {
    return fails("make_directories") ? -1 : FileSystem::make_directories(path);
  }
  int list(const fs::path& path, std::vector<std::string>& names) const override {
    return fails("list") ? -1 : FileSystem::list(path, names);
  }

 private:
  bool fails(const std::string& kind) const { return fails(kind, kind); }
  bool fails(const std::string& kind, std::string_view called) const {
    const int error = on_call ? on_call(called) : next(kind);
    if (error == ENOMEM) throw std::bad_alloc();
    if (error != 0) errno = error;
    return error != 0;
  }
  int next(const std::string& kind) const {
    const int call = calls_[kind]++;
    if (kind != kind_ || call != at_) return 0;
    at_ = -1;
    return error_;
  }

  std::string kind_;
  mutable int at_ = -1;
  int error_ = 0;
  bool writes_short_ = false;
  mutable std::map<std::string, int> calls_;
};

}  // namespace rota::test
