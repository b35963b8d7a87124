#include "catalog/presence.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace rota::internal {
namespace {

Presence presence_of(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return {.kind = Presence::Kind::missing, .error = error};
    case EACCES:
    case EPERM:
      return {.kind = Presence::Kind::forbidden, .error = error};
    default:
      return {.kind = Presence::Kind::unreachable, .error = error};
  }
}

}  // namespace

Presence look_for(int at, const char* name, NameKind kind) noexcept {
  struct stat status {};
  int result = 0;
  do {
    result = ::fstatat(at, name, &status, 0);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return presence_of(errno);
  const mode_t type = kind == NameKind::directory ? S_IFDIR : S_IFREG;
  if ((status.st_mode & S_IFMT) != type) return {.kind = Presence::Kind::missing};
  if (kind != NameKind::readable_file) return {};
  do {
    result = ::faccessat(at, name, R_OK, AT_EACCESS);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? Presence{} : presence_of(errno);
}

}  // namespace rota::internal
