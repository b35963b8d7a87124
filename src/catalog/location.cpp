#include "catalog/location.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <limits>
#include <random>
#include <utility>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "files/file.hpp"
#include "files/path.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {

FileStat stat_of(const StoredFile& file, std::string_view path) {
  if (file.bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return {.bytes = static_cast<std::int64_t>(file.bytes),
            .written = static_cast<std::int64_t>(file.version)};
  }
  throw failure(ErrorCode::corrupt, "list {}: its storage says that it has {} bytes", path, file.bytes);
}

StoredPath parse_stored(const std::string& path, const Storages& storages) {
  const std::string scheme(scheme_of(path));
  if (scheme.empty()) return {};
  const bool is_known = storages.contains(scheme) || storages_from_environment().contains(scheme);
  const bool is_file = !is_known && ::access(path.c_str(), F_OK) == 0;
  return is_file ? StoredPath() : stored_path(path, storages);
}

std::optional<StoredFile> find_stored(const StoredPath& at, const std::string& path) {
  try {
    return at.storage->find(at.name);
  } catch (...) {
    throw caught().as_error_of(path, fmt::format("look up {}", path));
  }
}

std::optional<DatasetFile> open_file(const std::string& path, const Storages& storages) {
  if (const StoredPath at = parse_stored(path, storages); at.storage != nullptr) {
    if (auto found = find_stored(at, path)) return DatasetFile(path, 0, at.storage, *std::move(found));
    return std::nullopt;
  }
  Descriptor descriptor = open_for_reading(AT_FDCWD, path.c_str());
  if (descriptor.is_open()) return DatasetFile(path, 0, std::move(descriptor));
  if (errno != ENOENT && errno != ENOTDIR) throw system_error("open", path, errno);
  return std::nullopt;
}

void replace_file(const std::string& path, std::span<const std::byte> bytes, const Storages& storages) {
  if (const StoredPath at = parse_stored(path, storages); at.storage != nullptr) {
    return at.storage->write(at.name, bytes.size(), [&](std::uint64_t offset, std::span<std::byte> to) {
      std::ranges::copy(bytes.subspan(offset, to.size()), to.begin());
    });
  }
  for (int tries = 1;; ++tries) {
    try {
      const std::size_t name = path.rfind('/') + 1;
      const File directory(posix_file_system(), name == 0 ? "." : path.substr(0, name),
                           O_RDONLY | O_DIRECTORY);
      Temporary file(posix_file_system(), fmt::format("{}.{}.{:08x}.tmp", path.substr(0, name),
                                                      path.substr(name), std::random_device()()));
      file.file().write(0, bytes);
      return file.replace(path, directory);
    } catch (const Error& error) {
      // Another process may have taken the new file for one that a kill has left, and removed it.
      constexpr int kMostTries = 4;
      if (error.code() == ErrorCode::not_found && tries < kMostTries) continue;
      throw Error(ErrorCode::io, error.what());
    }
  }
}

void visit_stored(const StoredPath& at, const std::string& path,
                  const std::function<bool(const StoredFile& file)>& visit) {
  struct Enough {};
  std::exception_ptr error;  // of `visit`, and none of the storage's
  try {
    at.storage->list(at.name, [&](const StoredFile& file) {
      if (error != nullptr) std::rethrow_exception(error);
      bool goes_on = false;
      error = thrown_by([&] { goes_on = visit(file); });
      if (error != nullptr) std::rethrow_exception(error);
      if (!goes_on) throw Enough();
    });
  } catch (const Enough&) {  // and no more
  } catch (...) {
    if (error == nullptr) throw caught().as_error_of(path, fmt::format("list {}", path));
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void list_directory(const std::string& path, const Storages& storages, const std::string& beginning,
                    const std::function<bool(const std::string& name, const StoredFile* file)>& visit) {
  if (const StoredPath at = parse_stored(path, storages); at.storage != nullptr) {
    return visit_stored({at.storage, at.name + beginning, {}}, path, [&](const StoredFile& file) {
      const std::string name = file.name.substr(at.name.size());
      return visit(name.substr(0, name.find('/')), &file);
    });
  }
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  while (!error && entry != end(entry) && visit(entry->path().filename().native(), nullptr))
    entry.increment(error);
  if (error) throw system_error("list", path, error.value());
}

Location::Location(std::string directory, const Storages& storages)
    : directory_(std::move(directory)), stored_(parse_stored(directory_, storages)) {
  if (is_stored()) return;
  const std::string root = directory_.empty() ? "." : directory_;
  root_ = open_for_reading(AT_FDCWD, root.c_str());
  if (!root_.is_open()) throw system_error("open", root, errno);
}

std::string Location::absolute_directory() const {
  return is_stored() ? directory_ : absolute_path(directory_);
}

std::string Location::path(const std::string& name) const {
  return name.starts_with('/') && !is_stored() ? name : directory_ + name;
}

FileStat Location::stat(const std::string& name) const {
  if (is_stored()) {
    if (const auto file = find_stored(stored(name), path(name))) return stat_of(*file, path(name));
    throw failure(ErrorCode::not_found, "read {}: its storage has no file of that name", path(name));
  }
  const struct stat status =
      stat_entry(root_.get(), name.c_str(), name.starts_with('/') ? std::string_view() : directory_);
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  if (S_ISREG(status.st_mode)) {
    return {.bytes = status.st_size,
            .written = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
  }
  throw failure(ErrorCode::io, "read {}: it is no regular file; restore it, or leave it out", path(name));
}

int Location::probe(const std::string& name, bool is_directory) const {
  if (!is_stored()) {
    struct stat status {};
    if (::fstatat(root_.get(), name.c_str(), &status, 0) != 0) return errno;
    if ((status.st_mode & S_IFMT) != (is_directory ? S_IFDIR : S_IFREG)) return -1;
    return is_directory || ::faccessat(root_.get(), name.c_str(), R_OK, AT_EACCESS) == 0 ? 0 : errno;
  }
  const StoredPath at = stored(name);
  if (!is_directory) return find_stored(at, path(name)) ? 0 : ENOENT;
  bool is_there = false;
  visit_stored({at.storage, at.name + '/', {}}, path(name),
               [&](const StoredFile& /*file*/) { return !(is_there = true); });  // one will do
  return is_there ? 0 : ENOENT;
}

DatasetFile Location::open(const std::string& name, std::size_t number, Access access,
                           const FileStat* known) const {
  if (is_stored()) {
    const FileStat now = known == nullptr ? stat(name) : *known;
    return {path(name), number, stored_.storage,
            StoredFile{.name = stored_.name + name,
                       .bytes = static_cast<std::uint64_t>(now.bytes),
                       .version = static_cast<std::uint64_t>(now.written)}};
  }
  Descriptor descriptor = open_descriptor(name);
  if (access == Access::mapped) return DatasetFile::map(path(name), number, std::move(descriptor));
  Descriptor direct;  // of the same file; not open where the file system has no such reads
  if (access == Access::direct) {
    direct = open_for_reading(AT_FDCWD, fmt::format("/proc/self/fd/{}", descriptor.get()).c_str(), O_DIRECT);
  }
  return {path(name), number, std::move(descriptor), std::move(direct)};
}

Descriptor Location::open_descriptor(const std::string& name) const {
  Descriptor file = open_for_reading(root_.get(), name.c_str());
  if (!file.is_open()) throw system_error("open", path(name), errno);
  return file;
}

}  // namespace rota::internal
