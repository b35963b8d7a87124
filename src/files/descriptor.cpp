#include "files/descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

std::string_view advice(int error, std::string_view of_rights) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return of_rights;
    case ENOSPC:
    case EDQUOT:
      return "; free some space, or name another place";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    case ENOENT:
    case ENOTDIR:
      return "; check the path: it must be there, and seen by all ranks";
    default:
      return "";
  }
}

Error met(bool is_missing, std::string_view what, std::string_view path, int error,
          std::string_view of_rights) {
  return {is_missing ? ErrorCode::not_found : ErrorCode::io,
          fmt::format("{} {}: {}{}", what, path, std::generic_category().message(error),
                      advice(error, of_rights))};
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor open_for_reading(int at, const char* name, int flags) noexcept {
  int fd = -1;
  do {
    fd = ::openat(at, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

std::int64_t read_at(int fd, std::span<std::byte> to, std::uint64_t offset) noexcept {
  return move_all(to.size(), [&](std::size_t done, std::size_t most) {
    return ::pread(fd, to.data() + done, most, static_cast<off_t>(offset + done));
  });
}

void will_read_at(int fd, std::uint64_t offset, std::uint64_t count) noexcept {
  constexpr std::uint64_t kMost = std::uint64_t{32} << 20;
  // Of more at a time, Linux brings no more than its devices read ahead.
  constexpr std::uint64_t kStep = std::uint64_t{128} << 10;
  const std::uint64_t end = offset + std::min(count, kMost);
  for (; offset < end; offset += kStep) {
    // No more than a hint: where it fails, so does the read.
    (void)::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(std::min(end - offset, kStep)),
                          POSIX_FADV_WILLNEED);
  }
}

std::int64_t size_of_open(int fd) noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_size : -1;
}

struct stat stat_entry(int at, const char* name, std::string_view directory) {
  struct stat status {};
  if (::fstatat(at, name, &status, 0) == 0) return status;
  const int error = errno;
  const std::string path = std::string(directory) + name;
  if (error == ELOOP) {
    throw failure(ErrorCode::unsupported, "list {}: symbolic links make a cycle here; remove the link", path);
  }
  if (error == ENOENT && ::fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    throw failure(ErrorCode::io, "list {}: the symbolic link leads to nothing; mend or remove it", path);
  }
  // Even where it is gone by now, the dataset is there.
  throw Error(ErrorCode::io, system_error("list", path, error).what());
}

Error system_error(std::string_view what, std::string_view path, int error) {
  return met(error == ENOENT || error == ENOTDIR, what, path, error,
             "; give this user the right to read it, or leave it out");
}

Error write_error(std::string_view what, std::string_view path, int error) {
  return met(error == ENOENT, what, path, error,
             "; give this user the right to write there, or name another place");
}

std::string absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  if (!error) return (here / path).native();
  throw failure(ErrorCode::io,
                "find out where {} is: the working directory cannot be asked ({}); name an absolute path",
                path, error.message());
}

}  // namespace rota::internal
