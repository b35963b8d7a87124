#include "files/memory_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

std::shared_ptr<std::byte> map_bytes(int fd, std::size_t bytes, int access, int flags) {
  if (bytes == 0) return nullptr;
  void* memory = ::mmap(nullptr, bytes, access, flags, fd, 0);
  if (memory == MAP_FAILED) throw sharing_failed(fmt::format("map {} bytes", bytes), errno);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* mapped) { ::munmap(mapped, bytes); }};
}

}  // namespace

Error sharing_failed(std::string_view what, int error) {
  return failure(ErrorCode::io, "share memory among the ranks of a node: {}: {}", what,
                 std::generic_category().message(error));
}

MemoryFile::MemoryFile(const char* name) : fd_(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (fd_.is_open()) return;
  const int error = errno;
  if (error != EPERM && error != EACCES && error != ENOSYS) throw sharing_failed("memfd_create", error);
  try {
    *this = in("/dev/shm");  // a container may forbid the call
  } catch (const Error& second) {
    throw failure(second.code(), "{}, and {}: allow the call in this container, or mount /dev/shm",
                  sharing_failed("memfd_create", error).what(), second.what());
  }
}

MemoryFile::MemoryFile(const Address& address, Access access)
    : fd_(::open(fmt::format("/proc/{}/fd/{}", address.process, address.descriptor).c_str(),
                 (access == Access::read ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)),
      bytes_(static_cast<std::size_t>(address.bytes)) {
  if (!fd_.is_open()) throw sharing_failed("open", errno);
  if (const Address found = this->address();
      found.device != address.device || found.inode != address.inode || found.bytes != address.bytes) {
    throw sharing_failed("open", ENOENT);
  }
}

MemoryFile MemoryFile::in(const std::filesystem::path& directory) {
  if (directory.empty()) return MemoryFile("rota-file");
  constexpr mode_t kOwn = 0600;
  Descriptor fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwn));
  if (!fd.is_open())
    throw Error(ErrorCode::io,
                system_error("make a file without a name in", directory.native(), errno).what());
  return MemoryFile(std::move(fd));
}

void MemoryFile::append(std::span<const std::byte> piece) {
  const std::int64_t put = move_all(piece.size(), [&](std::size_t done, std::size_t most) {
    return ::pwrite(get(), piece.data() + done, most, static_cast<off_t>(bytes_ + done));
  });
  if (!std::cmp_equal(put, piece.size()))
    throw sharing_failed(fmt::format("write behind byte {}", bytes_), put < 0 ? errno : EIO);
  bytes_ += piece.size();
}

void MemoryFile::resize(std::size_t bytes) {
  if (::ftruncate(get(), static_cast<off_t>(bytes)) != 0) throw sharing_failed("ftruncate", errno);
  bytes_ = bytes;
}

void MemoryFile::allot(std::size_t offset, std::size_t count) const {
  int error = EINTR;
  while (count > 0 && error == EINTR) {
    error = ::posix_fallocate(get(), static_cast<off_t>(offset), static_cast<off_t>(count));
  }
  if (count > 0 && error != 0) throw sharing_failed(fmt::format("allot {} bytes", count), error);
}

void MemoryFile::seal() const {
  if (!is_in_memory_) return;
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (::fcntl(get(), F_ADD_SEALS, kSeals) != 0) throw sharing_failed("seal", errno);
}

MemoryFile::Address MemoryFile::address() const {
  struct stat status {};
  if (::fstat(get(), &status) != 0) throw sharing_failed("fstat", errno);
  return {.process = ::getpid(),
          .descriptor = get(),
          .device = static_cast<std::int64_t>(status.st_dev),
          .inode = static_cast<std::int64_t>(status.st_ino),
          .bytes = status.st_size};
}

std::shared_ptr<const std::byte> MemoryFile::map(bool is_ready) const {
  // Private, but never written: sealed files can be mapped in no other way, and pages stay common.
  return map_bytes(get(), bytes_, PROT_READ, MAP_PRIVATE | (is_ready && is_in_memory_ ? MAP_POPULATE : 0));
}

std::shared_ptr<std::byte> MemoryFile::map_to_write() const {
  return map_bytes(get(), bytes_, PROT_READ | PROT_WRITE, MAP_SHARED);
}

}  // namespace rota::internal
