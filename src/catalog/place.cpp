#include "catalog/place.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "catalog/walk.hpp"
#include "core/caught.hpp"
#include "rota/error.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {
namespace {

// What the storage says of a file; what it throws is told with `path`.
std::optional<StoredFile> find(const StoredPath& at, const std::string& path) {
  try {
    return at.storage->find(at.name);
  } catch (...) {
    throw caught().as_error_of(path, fmt::format("ask for {}", path));
  }
}

FileStat stat_of(const StoredFile& file, std::string_view path) {
  if (file.bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return {.bytes = static_cast<std::int64_t>(file.bytes),
            .written = static_cast<std::int64_t>(file.version)};
  }
  throw Error(ErrorCode::corrupt,
              fmt::format("list {}: its storage says that it has {} bytes", path, file.bytes));
}

StoredFile find_stored(const StoredPath& at, const std::string& path) {
  auto file = find(at, path);
  if (file) return *std::move(file);
  throw Error(ErrorCode::not_found, fmt::format("read {}: its storage has no file of that name", path));
}

}  // namespace

std::string local_path(std::string path) {
  constexpr std::string_view kLocal = "file:///";
  if (path.starts_with(kLocal)) path.erase(0, kLocal.size() - 1);
  return path;
}

StoredPath parse_stored(const std::string& path, const Storages& storages) {
  const std::size_t end = path.find("://");
  if (end == std::string::npos) return {};
  const std::string scheme = path.substr(0, end);
  if (path.find('/') < end) return {};
  const bool is_known = storages.contains(scheme) || storages_from_environment().contains(scheme);
  const bool is_file = !is_known && ::access(path.c_str(), F_OK) == 0;
  return is_file ? StoredPath() : stored_path(path, storages);
}

Place::Place(std::string directory, const Storages& storages)
    : directory_(std::move(directory)), stored_(parse_stored(directory_, storages)) {
  if (is_stored()) return;
  const std::string root = directory_.empty() ? "." : directory_;
  root_ = open_for_reading(AT_FDCWD, root.c_str());
  if (!root_.is_open()) throw system_error("open", root, errno);
}

std::string Place::absolute_directory() const { return is_stored() ? directory_ : absolute_path(directory_); }

std::string Place::path(const std::string& name) const {
  return name.starts_with('/') && !is_stored() ? name : directory_ + name;
}

FileStat Place::ask(const std::string& name) const {
  if (is_stored()) {
    return stat_of(find_stored({stored_.storage, stored_.name + name, {}}, path(name)), path(name));
  }
  const struct stat status =
      stat_entry(root_.get(), name.c_str(), name.starts_with('/') ? std::string_view() : directory_);
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  if (S_ISREG(status.st_mode)) {
    return {.bytes = status.st_size,
            .written = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
  }
  throw Error(ErrorCode::io,
              fmt::format("read {}: it is no regular file; restore it, or leave it out", path(name)));
}

bool Place::has_stored(const std::string& name, bool is_directory) const {
  const StoredPath at{stored_.storage, stored_.name + name, {}};
  if (!is_directory) return find(at, path(name)).has_value();
  struct IsThere {};  // one will do
  try {
    at.storage->list(at.name + '/', [](const StoredFile& /*file*/) { throw IsThere(); });
  } catch (const IsThere&) {
    return true;
  } catch (...) {
    throw caught().as_error_of(path(name), fmt::format("list {}", path(name)));
  }
  return false;
}

DatasetFile Place::open(const std::string& name, std::size_t number, Access access,
                        const FileStat* known) const {
  if (is_stored()) {
    const FileStat stat = known == nullptr ? ask(name) : *known;
    return {path(name), number, stored_.storage,
            StoredFile{.name = stored_.name + name,
                       .bytes = static_cast<std::uint64_t>(stat.bytes),
                       .version = static_cast<std::uint64_t>(stat.written)}};
  }
  Descriptor descriptor = open_descriptor(name);
  if (access == Access::mapped) return DatasetFile::map(path(name), number, std::move(descriptor));
  Descriptor direct;  // of the same file; not open where the file system has no such reads
  if (access == Access::direct) {
    direct = open_for_reading(AT_FDCWD, fmt::format("/proc/self/fd/{}", descriptor.get()).c_str(), O_DIRECT);
  }
  return {path(name), number, std::move(descriptor), std::move(direct)};
}

Descriptor Place::open_descriptor(const std::string& name) const {
  Descriptor file = open_for_reading(root_.get(), name.c_str());
  if (!file.is_open()) throw system_error("open", path(name), errno);
  return file;
}

std::string list_stored(const std::string& path, const StoredPath& stored, const StoredVisitor& visit) {
  const Storage& storage = *stored.storage;
  const std::string& name = stored.name;
  const std::string scheme = path.substr(0, path.size() - name.size());
  if (!name.empty() && !name.ends_with('/')) {
    if (const auto file = find(stored, path)) {
      const std::size_t last = name.rfind('/') + 1;
      visit(std::string_view(name).substr(last), stat_of(*file, path));
      return scheme + name.substr(0, last);
    }
  }
  const bool is_glob = name.find_first_of("*?[") != std::string::npos;
  const std::string prefix = is_glob                               ? fixed_directory(name)
                             : name.empty() || name.ends_with('/') ? name
                                                                   : name + '/';
  const std::string beginning = is_glob ? name.substr(0, name.find_first_of("*?[\\")) : prefix;
  std::optional<std::string> before;
  bool is_any = false;
  const auto take = [&](const StoredFile& file) {
    if (!file.name.starts_with(beginning) || (before && file.name <= *before)) {
      throw Error(ErrorCode::corrupt,
                  fmt::format("list {}: its storage lists \"{}\" after \"{}\"; it must list names that begin "
                              "with \"{}\", in order, each once",
                              path, file.name, before.value_or(""), beginning));
    }
    if (file.name.find('\0') != std::string::npos) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("list {}: the name after \"{}\" has a zero byte in it; give the file another",
                              path, before.value_or("")));
    }
    before = file.name;
    if (file.name.ends_with('/')) return;  // marks a directory
    if (is_glob && ::fnmatch(name.c_str(), file.name.c_str(), FNM_PATHNAME | FNM_PERIOD) != 0) return;
    is_any = true;
    visit(std::string_view(file.name).substr(prefix.size()), stat_of(file, scheme + file.name));
  };
  std::exception_ptr not_taken;  // is no error of the storage
  try {
    storage.list(beginning, [&](const StoredFile& file) {
      try {
        take(file);
      } catch (...) {
        not_taken = std::current_exception();
        throw;
      }
    });
  } catch (...) {
    if (not_taken == nullptr) throw caught().as_error_of(path, fmt::format("list {}", path));
  }
  if (not_taken != nullptr) std::rethrow_exception(not_taken);
  if (is_any) return scheme + prefix;
  throw Error(ErrorCode::not_found, fmt::format("open {}: its storage has no file {}; check the path", path,
                                                is_glob ? "that matches" : "of that name, nor below it"));
}

}  // namespace rota::internal
