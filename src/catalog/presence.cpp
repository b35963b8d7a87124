#include "catalog/presence.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

namespace rota {
namespace {

Presence presence_of(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return {.kind = Presence::Kind::missing, .error = error};
    case EACCES:
    case EPERM:
      return {.kind = Presence::Kind::forbidden, .error = error};
    default:
      return {.kind = Presence::Kind::unreachable, .error = error};
  }
}

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

bool is_directory(const dirent& entry, int fd, std::string_view shown) {
  if (entry.d_type == DT_DIR || entry.d_type == DT_REG) return entry.d_type == DT_DIR;
  return S_ISDIR(stat_entry(fd, &entry.d_name[0], shown).st_mode);
}

}  // namespace

Presence look_for(int at, const char* name, mode_t kind) noexcept {
  struct stat status {};
  int result = 0;
  do {
    result = ::fstatat(at, name, &status, 0);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return presence_of(errno);
  return {.kind = (status.st_mode & S_IFMT) == kind ? Presence::Kind::there : Presence::Kind::missing};
}

Presence look_for_readable(int at, const char* name) noexcept {
  const Presence presence = look_for(at, name, S_IFREG);
  if (presence.kind != Presence::Kind::there) return presence;
  int result = 0;
  do {
    result = ::faccessat(at, name, R_OK, AT_EACCESS);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? presence : presence_of(errno);
}

AskedDirectory::AskedDirectory(std::string path) : path_(std::move(path)) {
  const std::string opened = path_.empty() ? "." : path_;
  opened_ = open_for_reading(AT_FDCWD, opened.c_str());
  if (!opened_.is_open()) throw system_error("open", opened, errno);
}

bool AskedDirectory::has(const std::string& name, mode_t kind) const {
  const Presence presence = look_for(opened_.get(), name.c_str(), kind);
  if (presence.kind == Presence::Kind::there || presence.kind == Presence::Kind::missing) {
    return presence.kind == Presence::Kind::there;
  }
  throw system_error("look for", path_ + name, presence.error);
}

Glance AskedDirectory::glance(const std::string& directory, std::size_t most) const {
  const std::string shown =
      directory.empty() || directory.ends_with('/') ? path_ + directory : path_ + directory + '/';
  Descriptor fd = open_for_reading(opened_.get(), directory.empty() ? "." : directory.c_str());
  if (!fd.is_open()) throw system_error("list", shown, errno);
  const std::unique_ptr<DIR, CloseDirectory> opened(::fdopendir(fd.get()));
  if (opened == nullptr) throw system_error("list", shown, errno);
  const int number = fd.release();
  Glance glance;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(opened.get());  // NOLINT(concurrency-mt-unsafe): a stream of its own
    if (entry == nullptr && errno != 0) throw Error(ErrorCode::io, system_error("list", shown, errno).what());
    if (entry == nullptr) return glance;
    std::string name = &entry->d_name[0];
    if (name.starts_with('.')) continue;
    glance.is_whole = glance.files.size() + glance.folders.size() < most;
    if (!glance.is_whole) return glance;
    (is_directory(*entry, number, shown) ? glance.folders : glance.files).push_back(std::move(name));
  }
}

}  // namespace rota
