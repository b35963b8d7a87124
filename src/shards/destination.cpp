#include "shards/destination.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

#include "catalog/place.hpp"
#include "core/caught.hpp"
#include "files/descriptor.hpp"
#include "files/temporary.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kTemporaryEnding = ".tmp";

const FileSystem& files() { return posix_file_system(); }

}  // namespace

Destination::Destination(const std::string& path, const Storages& storages)
    : path_(local_path(path)), stored_(parse_stored(path_, storages)) {
  if (path_.empty()) throw Error(ErrorCode::invalid_argument, "write shards: name a directory for them");
  if (!path_.ends_with('/')) path_ += '/';
  if (stored_.storage == nullptr) {
    make_directory(files(), path_);
  } else if (!stored_.name.empty() && !stored_.name.ends_with('/')) {
    stored_.name += '/';
  }
}

std::map<std::string, std::uint64_t> Destination::list() const {
  std::map<std::string, std::uint64_t> found;
  const auto add = [&](const std::string& name, std::uint64_t bytes) {
    if (!name.empty() && !name.starts_with('.')) found[name] = bytes;
  };
  if (stored_.storage == nullptr) {
    for (const std::string& name : list_names(files(), path_)) {
      std::error_code is_none;
      const auto bytes = std::filesystem::file_size(path_ + name, is_none);
      add(name, is_none ? 0 : bytes);
    }
    return found;
  }
  try {
    stored_.storage->list(stored_.name, [&](const StoredFile& file) {
      const std::string name = file.name.substr(stored_.name.size());
      add(name.substr(0, name.find('/')), file.bytes);
    });
  } catch (...) {
    throw caught().as_error_of(path_, fmt::format("list {}", path_));
  }
  return found;
}

bool Destination::holds(const std::string& name, std::span<const std::byte> bytes) const {
  std::vector<std::byte> found(bytes.size());
  try {
    if (stored_.storage == nullptr) {
      const File file(files(), path_ + name, O_RDONLY);
      if (file.size() != bytes.size()) return false;
      file.read(0, found);
    } else {
      const auto file = stored_.storage->find(stored_.name + name);
      if (!file || file->bytes != bytes.size()) return false;
      StoredBytes wanted{.file = &*file, .offset = 0, .to = found};
      stored_.storage->read(std::span(&wanted, 1));
      if (wanted.error != nullptr) std::rethrow_exception(wanted.error);
    }
  } catch (...) {
    throw caught().as_error_of(path_ + name, fmt::format("read {}", path_ + name));
  }
  return std::ranges::equal(found, bytes);
}

void Destination::put(const std::string& name, std::span<const std::byte> bytes) const {
  try {
    if (stored_.storage != nullptr) {
      return stored_.storage->write(stored_.name + name, bytes.size(),
                                    [&](std::uint64_t offset, std::span<std::byte> to) {
                                      std::ranges::copy(bytes.subspan(offset, to.size()), to.begin());
                                    });
    }
    // Another process that ends now may take the file for one that a kill has left, and sweep it away.
    constexpr int kMostTries = 4;
    const File directory(files(), path_, O_RDONLY | O_DIRECTORY);
    for (int tries = 1;; ++tries) {
      Temporary file(files(),
                     fmt::format("{}.{}.{:08x}{}", path_, name, std::random_device()(), kTemporaryEnding));
      file.file().write(0, bytes);
      try {
        return file.replace(path_ + name, directory);
      } catch (const Error&) {
        if (tries == kMostTries) throw;
      }
    }
  } catch (...) {
    throw caught().as_error_of(path_ + name, fmt::format("write {}", path_ + name));
  }
}

void Destination::remove(const std::string& name) const {
  try {
    if (stored_.storage != nullptr) return stored_.storage->remove(stored_.name + name);
    if (::unlink((path_ + name).c_str()) != 0 && errno != ENOENT) {
      throw write_error("remove", path_ + name, errno);
    }
  } catch (...) {
    throw caught().as_error_of(path_ + name, fmt::format("remove {}", path_ + name));
  }
}

void Destination::sweep(std::initializer_list<std::string_view> stems) const {
  if (stored_.storage != nullptr) return;
  for (const std::string& name : list_names(files(), path_)) {
    const bool is_ours = std::ranges::any_of(stems, [&](std::string_view stem) {
      return name.starts_with('.') && std::string_view(name).substr(1).starts_with(stem);
    });
    const bool is_temporary = is_ours && name.ends_with(kTemporaryEnding);
    if (is_temporary && is_dead(files(), path_ + name)) remove(name);
  }
}

}  // namespace rota::internal
