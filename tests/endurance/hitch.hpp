#pragma once

// Something that happens to this rank, once, at a chosen point of a save or a restore.

#include <fcntl.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "file_system.hpp"

namespace rota::test {

/// Points are named `KIND` or `KIND:N`, the N-th of its kind, from 0. *Any thread.*
class Hitch {
 public:
  /// Returns an error number, with which the call at that point is to fail; 0: it is to be made.
  using Act = std::function<int()>;

  /// `act` is done at `point`, once, from now on.
  void arm(const std::string& point, Act act);
  void disarm() { arm("", nullptr); }
  /// This rank has come to a point of this kind.
  [[nodiscard]] int reach(std::string_view kind);

 private:
  std::mutex mutex_;
  std::string kind_;
  int number_ = 0;
  Act act_;
};

/// The one of this process, which the calls of MPI-IO reach as well: `mpi_open`, `mpi_write`, `mpi_close`.
Hitch& hitch();

/// The file system of this machine, whose calls are points: of the name of the call, but `create` for an
/// open that makes a file, and `page` for a write at the head of one. A failing close closes nevertheless.
class HitchFileSystem : public rota::checkpoint::FileSystem {
 public:
  int open(const char* path, int flags, mode_t mode) const override;
  int close(int fd) const override;
  ssize_t pread(int fd, void* out, std::size_t bytes, off_t at) const override;
  ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) const override;
  int fsync(int fd) const override;
  int fallocate(int fd, off_t bytes) const override;
  int rename(const char* from, const char* to) const override;
  int unlink(const char* path) const override;
  int list(const std::filesystem::path& path, std::vector<std::string>& names) const override;
};

}  // namespace rota::test
