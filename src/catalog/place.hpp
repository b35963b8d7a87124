#pragma once

// Where the files of a dataset are.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

/// "/data/x" of "file:///data/x"; any other path as it is.
std::string local_path(std::string path);

/// Without a storage where `path` is of a file system. Throws Error{not_found} where nothing has that path,
/// but its scheme might.
StoredPath parse_stored(const std::string& path, const Storages& storages);

/// So many threads at least ask a storage for files.
inline constexpr int kStoredAtOnce = 64;

/// A directory of a file system, which is kept open, or names in a Storage that begin alike. *Immutable.*
class Place {
 public:
  /// `directory` is as a user would write it: empty, or ending in a slash. Throws Error{not_found}, Error{io}
  /// naming it.
  Place(std::string directory, const Storages& storages);

  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
  /// For another process.
  [[nodiscard]] std::string absolute_directory() const;
  [[nodiscard]] bool is_stored() const noexcept { return stored_.storage != nullptr; }
  /// It, open, where it is of a file system.
  [[nodiscard]] const Descriptor& root() const noexcept { return root_; }

  /// The path of the file of that name, as a user would write it.
  [[nodiscard]] std::string path(const std::string& name) const;
  /// What the file of this name is like now. Throws Error{io} naming it.
  [[nodiscard]] FileStat ask(const std::string& name) const;
  /// In a storage: whether there is a file of this name, or any below it. Throws as the storage does.
  [[nodiscard]] bool has_stored(const std::string& name, bool is_directory) const;
  /// The file of this name for reading, with that number. `known`, if any, is what it was when it was listed:
  /// of a storage, it need not be asked again. Throws Error{not_found} or Error{io} naming it.
  [[nodiscard]] DatasetFile open(const std::string& name, std::size_t number, Access access,
                                 const FileStat* known) const;
  /// The descriptor of the file of this name, of a file system. Throws as `open`.
  [[nodiscard]] Descriptor open_descriptor(const std::string& name) const;

 private:
  std::string directory_;
  StoredPath stored_;
  Descriptor root_;
};

/// Takes a name, relative to some directory, and what the file is like.
using StoredVisitor = std::function<void(std::string_view name, const FileStat& stat)>;

/// Calls `visit` for what is at `path`, which leads to a storage, in the order of the names' bytes: the file
/// of that name, those below it, or those that it matches as a glob. Returns the directory that the names are
/// relative to. Throws Error{not_found} where there is none, Error{corrupt} for a storage that lists them in
/// another order.
std::string list_stored(const std::string& path, const StoredPath& stored, const StoredVisitor& visit);

}  // namespace rota::internal
