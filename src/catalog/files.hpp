#pragma once

// The catalog of a dataset of files: which ones there are, in order, and how large.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "catalog/descriptor.hpp"
#include "catalog/name_table.hpp"
#include "catalog/walk.hpp"
#include "rota/catalog.hpp"
#include "rota/fingerprint.hpp"

namespace rota {

struct ListingOptions {
  int threads = 8;  ///< threads that read directories, and ask for sizes
  Evidence evidence = Evidence::sizes;
  NameFilter wanted = nullptr;        ///< of a directory's files, by last name; null: all
  std::string kind = "regular file";  ///< what is looked for, for messages
};

/// Regular files, in the byte-wise order of their names relative to one directory that is kept open. A few
/// bytes a file, and eight more where sizes are kept. *Immutable.*
class FileList {
 public:
  /// The file `path`, the files under directory `path`, or those that the glob `path` matches. Blocks on
  /// storage. Throws Error{not_found} for a missing path or nothing in it, Error{invalid_argument} for an
  /// empty path, and what walk_directory and match_glob throw.
  static FileList list(const std::filesystem::path& path, const ListingOptions& options);

  /// Files of these names, in this order, in the same directory; known by names and sizes. Throws
  /// Error{not_found}, Error{io} naming one that is not there or is no regular file.
  [[nodiscard]] FileList beside(std::span<const std::string> names) const;

  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }
  /// Names relative to the directory; a NameReader reads many.
  [[nodiscard]] const NameTable& names() const noexcept { return names_; }
  /// The path of file i as a user would write it.
  [[nodiscard]] std::string path(std::size_t i) const { return directory_ + names_[i]; }
  [[nodiscard]] Evidence evidence() const noexcept { return evidence_; }
  /// How many bytes file i had when it was listed. Only where the evidence is sizes.
  [[nodiscard]] std::int64_t bytes(std::size_t i) const noexcept { return bytes_[i]; }

  /// How many bytes the file of this name has now. Throws Error{io} naming it. Any thread.
  [[nodiscard]] std::int64_t ask_bytes(const std::string& name) const;
  /// Opens the file of this name, or file i, for reading; throws Error{not_found} or Error{io} naming it. Any
  /// thread.
  [[nodiscard]] Descriptor open(const std::string& name) const;
  [[nodiscard]] Descriptor open(std::size_t i) const { return open(names_[i]); }

 private:
  enum class Kind { directory, file, glob };
  static Kind kind_of(const std::string& path);
  [[nodiscard]] NameTable list_names(const std::string& path, Kind kind, const ListingOptions& options) const;
  void ask_sizes(int threads);
  void keep_regular_files();

  Descriptor root_;
  std::string directory_;  // what goes before a name to make a path
  Evidence evidence_ = Evidence::sizes;
  NameTable names_;
  std::vector<std::int64_t> bytes_;
};

}  // namespace rota
