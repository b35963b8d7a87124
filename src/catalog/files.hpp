#pragma once

// The catalog of a dataset of files: which ones there are, in order, and how large.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "catalog/descriptor.hpp"
#include "catalog/names.hpp"
#include "catalog/walk.hpp"
#include "rota/fingerprint.hpp"

namespace rota {

struct ListingOptions {
  int threads = 8;                    ///< threads that ask for sizes
  NameFilter wanted = nullptr;        ///< of a directory's files, by last name; null: all
  std::string kind = "regular file";  ///< what is looked for, for messages
};

/// Regular files, in the byte-wise order of their names relative to one directory that is kept open. About 16
/// bytes a file besides the names. *Immutable.*
class FileList {
 public:
  /// The file `path`, the files under directory `path`, or those that the glob `path` matches. Blocks on
  /// storage. Throws Error{not_found} for a missing path or nothing in it, Error{invalid_argument} for an
  /// empty path, and what walk_directory and match_glob throw.
  static FileList list(const std::filesystem::path& path, const ListingOptions& options);

  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }
  /// The name relative to the directory.
  [[nodiscard]] const char* name(std::size_t i) const noexcept { return names_[i]; }
  /// The path as a user would write it.
  [[nodiscard]] std::string path(std::size_t i) const { return directory_ + names_[i]; }
  [[nodiscard]] std::int64_t bytes(std::size_t i) const noexcept { return bytes_[i]; }

  /// Opens file i for reading; throws Error{not_found} or Error{io} naming it. Any thread.
  [[nodiscard]] Descriptor open(std::size_t i) const;

 private:
  void ask_sizes(int threads);
  void keep_regular_files();

  Descriptor root_;
  std::string directory_;  // what goes before a name to make a path
  NameList names_;
  std::vector<std::int64_t> bytes_;
};

}  // namespace rota
