#pragma once

// Memory that other processes of the node can open: a file without a name.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "files/descriptor.hpp"
#include "rota/error.hpp"

namespace rota::internal {

/// Error{io}: sharing memory has met the system's error number `error` at `what`.
Error sharing_failed(std::string_view what, int error);

/// A file without a name, in memory (memfd_create; /dev/shm where a container forbids that) or in a directory
/// (O_TMPFILE). It is gone with the last process that has it open or mapped, however that ends. Move-only.
/// All throws Error{io}.
class MemoryFile {
 public:
  /// What another process needs to find it.
  struct Address {
    std::int64_t process = 0;
    std::int64_t descriptor = -1;
    std::int64_t device = 0;
    std::int64_t inode = 0;
    std::int64_t bytes = 0;
  };
  enum class Access { read, write };

  /// `name` is what /proc/<pid>/maps calls it.
  explicit MemoryFile(const char* name = "rota");
  /// One in `directory`; in memory, if that is empty.
  static MemoryFile in(const std::filesystem::path& directory);
  /// Another process's. Throws where it cannot be opened, or is another file.
  explicit MemoryFile(const Address& address, Access access = Access::read);

  /// Gives the descriptor back; what is mapped stays.
  void close() noexcept { fd_ = Descriptor(); }
  void append(std::span<const std::byte> piece);
  /// Makes it `bytes` bytes, zeros where nothing was.
  void resize(std::size_t bytes);
  /// Takes the memory, or the room, for bytes [offset, offset + count) of it: what is mapped can then be
  /// written to.
  void allot(std::size_t offset, std::size_t count) const;
  /// From here on nobody can change it, if it is in memory.
  void seal() const;

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] Address address() const;
  /// All of it, to be read; null for none. It lives on without the file. `is_ready`: with its pages, if it is
  /// in memory.
  [[nodiscard]] std::shared_ptr<const std::byte> map(bool is_ready = false) const;
  /// All of one that is not sealed, for all who have it to write to.
  [[nodiscard]] std::shared_ptr<std::byte> map_to_write() const;

 private:
  explicit MemoryFile(Descriptor fd) noexcept : fd_(std::move(fd)), is_in_memory_(false) {}

  Descriptor fd_;
  bool is_in_memory_ = true;
  std::size_t bytes_ = 0;
};
static_assert(std::is_nothrow_move_constructible_v<MemoryFile> &&
              std::is_nothrow_move_assignable_v<MemoryFile>);

}  // namespace rota::internal
