#pragma once

// Where the files of a dataset are: in a directory of a file system, or in a storage.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "files/dataset_file.hpp"
#include "files/descriptor.hpp"
#include "rota/catalog.hpp"
#include "rota/storage.hpp"

namespace rota::internal {

/// A file when it was listed.
struct FileStat {
  std::int64_t bytes = 0;
  std::int64_t written = 0;  ///< when it was last written to, in nanoseconds since 1970; or its version
  friend bool operator==(const FileStat&, const FileStat&) = default;
};

/// Throws Error{corrupt} naming `path` for more bytes than there can be.
FileStat stat_of(const StoredFile& file, std::string_view path);

/// Without a storage where `path` is of a file system. Throws Error{not_found} where nothing has that path,
/// but its scheme might.
StoredPath parse_stored(const std::string& path, const Storages& storages);

/// The file at `path`, if its storage has it. Throws what the storage does, with `path`.
std::optional<StoredFile> find_stored(const StoredPath& at, const std::string& path);

/// The file `path` for reading, on a file system or in a storage; nothing where none has that name. Throws
/// Error{io} and what a storage does.
std::optional<DatasetFile> open_file(const std::string& path, const Storages& storages);

/// Writes the file `path`, on a file system or in a storage, in place of what has that name: whole, or not at
/// all. On a file system it is ".name.<random>.tmp" until then. Throws Error{io}; where only the last fsync
/// failed, the file is there.
void replace_file(const std::string& path, std::span<const std::byte> bytes, const Storages& storages);

/// Calls `visit` for the files of a storage whose names begin with that of `at`, until it returns false.
/// Throws what `visit` does, and what the storage does, with `path`.
void visit_stored(const StoredPath& at, const std::string& path,
                  const std::function<bool(const StoredFile& file)>& visit);

/// Calls `visit` for the names in the directory `path`, which ends in a slash, in any order, until it returns
/// false. Of a storage it also gets the file; a directory's name comes once for each file below it, and only
/// names that begin with `beginning` come. Throws Error{not_found}, Error{io}, and what a storage does.
void list_directory(const std::string& path, const Storages& storages, const std::string& beginning,
                    const std::function<bool(const std::string& name, const StoredFile* file)>& visit);

/// How many threads at least query a storage: its answers are long on their way.
inline constexpr int kStoredAtOnce = 64;

/// A directory of a file system, which is kept open, or names in a Storage that begin alike. *Immutable.*
class Location {
 public:
  /// `directory` is as a user would write it: empty, or ending in a slash. Throws Error{not_found}, Error{io}
  /// naming it.
  Location(std::string directory, const Storages& storages);

  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
  /// For another process.
  [[nodiscard]] std::string absolute_directory() const;
  [[nodiscard]] bool is_stored() const noexcept { return stored_.storage != nullptr; }
  /// The open directory, of a file system.
  [[nodiscard]] const Descriptor& root() const noexcept { return root_; }

  /// The path of the file of that name, as a user would write it.
  [[nodiscard]] std::string path(const std::string& name) const;
  /// What the file of this name is like now. Throws Error{io} naming it.
  [[nodiscard]] FileStat stat(const std::string& name) const;
  /// Returns 0 where a regular file of this name is there that this user may read, or a directory; -1 for
  /// another kind, or the system's error number. Symbolic links are followed. Throws as a storage does.
  [[nodiscard]] int probe(const std::string& name, bool is_directory = false) const;
  /// The file of this name for reading, with that number. `known`, if any, is what it was when it was listed;
  /// a storage is then not queried again. Throws Error{not_found} or Error{io} naming it.
  [[nodiscard]] DatasetFile open(const std::string& name, std::size_t number, Access access,
                                 const FileStat* known) const;
  /// The descriptor of the file of this name, of a file system. Throws as `open`.
  [[nodiscard]] Descriptor open_descriptor(const std::string& name) const;

 private:
  [[nodiscard]] StoredPath stored(const std::string& name) const {
    return {stored_.storage, stored_.name + name, {}};
  }

  std::string directory_;
  StoredPath stored_;
  Descriptor root_;
};

}  // namespace rota::internal
