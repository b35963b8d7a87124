#include "catalog/existence.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace rota::internal {
namespace {

Existence presence_of(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return {.kind = Existence::Kind::missing, .error = error};
    case EACCES:
    case EPERM:
      return {.kind = Existence::Kind::forbidden, .error = error};
    default:
      return {.kind = Existence::Kind::unreachable, .error = error};
  }
}

}  // namespace

Existence look_for(int at, const char* name, NameKind kind) noexcept {
  struct stat status {};
  int result = 0;
  do {
    result = ::fstatat(at, name, &status, 0);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return presence_of(errno);
  const mode_t type = kind == NameKind::directory ? S_IFDIR : S_IFREG;
  if ((status.st_mode & S_IFMT) != type) return {.kind = Existence::Kind::missing};
  if (kind != NameKind::readable_file) return {};
  do {
    result = ::faccessat(at, name, R_OK, AT_EACCESS);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? Existence{} : presence_of(errno);
}

}  // namespace rota::internal
