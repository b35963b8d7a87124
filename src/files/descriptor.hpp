#pragma once

// A file descriptor that closes itself, whole reads from it, and the system's errors as ours.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {

/// An open file or directory. Move-only.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};
static_assert(std::is_nothrow_move_constructible_v<Descriptor> &&
              std::is_nothrow_move_assignable_v<Descriptor>);

/// Opens `name`, relative to directory `at`, for reading, with `flags` beside; never waits for the other end
/// of a pipe. Not open, and errno set, where that fails.
Descriptor open_for_reading(int at, const char* name, int flags = 0) noexcept;

/// Reads or writes `bytes` bytes by `move(done, most)`, which moves at most `most` of those behind the first
/// `done`: again where it was interrupted, or moved a part. Returns how many were moved, fewer at the end of
/// a file; -1 with errno.
template <typename Move>
std::int64_t move_all(std::size_t bytes, const Move& move) {
  constexpr std::size_t kMost = 0x7ffff000;  // the largest transfer that Linux makes in one call
  std::size_t done = 0;
  while (done < bytes) {
    const std::int64_t moved = move(done, std::min(bytes - done, kMost));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return -1;
    if (moved == 0) break;
    done += static_cast<std::size_t>(moved);
  }
  return static_cast<std::int64_t>(done);
}

/// Reads from byte `offset` until `to` is full or the file ends. Returns the bytes read, or -1 with errno.
std::int64_t read_at(int fd, std::span<std::byte> to, std::uint64_t offset) noexcept;

/// Begins to bring [offset, offset + count) into the page cache, 32 MiB of it at most: the system reads ahead
/// by itself where more is read. Does not wait, unless too much is under way.
void will_read_at(int fd, std::uint64_t offset, std::uint64_t count) noexcept;

/// How many bytes the open file has, or -1 with errno.
std::int64_t size_of_open(int fd) noexcept;

/// What entry `name` of the directory open as `at` is, or what it links to. Throws Error{io} naming it, after
/// `directory`, where it cannot be asked or links to nothing; Error{unsupported} for a cycle of symbolic
/// links.
struct stat stat_entry(int at, const char* name, std::string_view directory);

/// The system's error number `error`, met by `what` ("open") on `path`: Error{not_found} where nothing has
/// that name, else Error{io}, with advice on reading where there is some.
Error system_error(std::string_view what, std::string_view path, int error);

/// The same of what is written, with advice on writing.
Error write_error(std::string_view what, std::string_view path, int error);

/// `path` from the root. Throws Error{io} where the working directory is gone.
std::string absolute_path(const std::string& path);

}  // namespace rota::internal
