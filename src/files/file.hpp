#pragma once

// An open file of a FileSystem, and what is done with names and directories.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "files/file_system.hpp"

namespace rota::internal {

/// What `path` is: "a file", "a FIFO", "a link to nothing", ...; empty where nothing is there, or where that
/// cannot be asked.
[[nodiscard]] std::string_view what_is(const FileSystem& system, const std::string& path);

/// What came of asking for a lock.
enum class Lock { taken, taken_elsewhere, not_supported };

/// An open file, closed when it dies. Move-only; its calls throw Error{io} naming the path, and repeat short
/// and interrupted transfers.
class File {
 public:
  File() noexcept = default;
  /// Opens a file, or with O_DIRECTORY a directory. Throws Error{corrupt}, saying what it is, for anything
  /// else than a regular file: what is open is looked at, not what has its name.
  File(const FileSystem& system, std::string path, int flags, mode_t mode = 0666);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  /// Fills `out`; throws Error{corrupt} where the file ends before.
  void read(std::uint64_t at, std::span<std::byte> out) const;
  void write(std::uint64_t at, std::span<const std::byte> data) const;
  void allocate(std::uint64_t bytes) const;
  void sync() const;
  /// Closes now, checked. Not to be called twice.
  void close();
  [[nodiscard]] std::uint64_t size() const;
  /// The lock goes with this object, also where a forked child has the file open, too.
  [[nodiscard]] Lock try_lock();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

 private:
  File(const FileSystem& system, std::string path) noexcept : system_(&system), path_(std::move(path)) {}
  void require_regular() const;

  const FileSystem* system_ = nullptr;
  std::string path_;
  int fd_ = -1;
  bool is_locked_ = false;
};
static_assert(std::is_nothrow_move_constructible_v<File> && std::is_nothrow_move_assignable_v<File>);

/// The names in `directory`. Throws Error{io}.
[[nodiscard]] std::vector<std::string> list_names(const FileSystem& system,
                                                  const std::filesystem::path& directory);

/// Makes `path` and what leads to it, as far as it is not there. When it returns, `path` is on disk, whoever
/// made it. Throws Error{io}, Error{not_found}.
void make_directory(const FileSystem& system, const std::filesystem::path& path);

}  // namespace rota::internal
